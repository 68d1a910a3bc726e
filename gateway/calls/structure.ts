import { ApiError } from '../errors/api-error.ts';
import { spellingsOf } from '../generation/spellings.ts';
import type { Model } from '../models/model.ts';
import type { GenerateRequest, Grammar } from '../runner/runner.ts';
import type { Call } from './call.ts';
import type { ToolOffer } from './tool-offer.ts';

type Structure = Pick<GenerateRequest, 'grammar' | 'vocabulary'>;

/** The structure of an answer: the form alone if no tool can be called, otherwise the offer's, which includes the form. */
export async function answerStructure(
  format: Call['format'],
  offer: ToolOffer | undefined,
  model: Pick<Model, 'id' | 'tokenizer'>,
  stopIds: readonly number[],
): Promise<Structure> {
  const isForm = format !== undefined && offer?.calls === undefined;
  if (isForm) return structureBy(format.field, format.grammar, model, stopIds);
  return offer === undefined ? {} : structureBy('tools', offer.grammar, model, stopIds);
}

/**
 * The grammar and the vocabulary, for the runner. Throws a 400 if the model cannot follow a grammar. name: the field that
 * errors name.
 */
async function structureBy(
  name: string,
  grammar: Grammar,
  { id, tokenizer }: Pick<Model, 'id' | 'tokenizer'>,
  stopIds: readonly number[],
): Promise<Structure> {
  if (stopIds.length === 0) {
    const message = `${name} needs a token that ends the answer, and the model "${id}" has none; name one in stop_token_ids.`;
    throw new ApiError({ status: 400, code: 'invalid_request', message, param: name });
  }
  try {
    return { grammar, vocabulary: await spellingsOf(tokenizer) };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const message = `${name} cannot be followed with this model: ${error.message}`;
    throw new ApiError({ status: 400, code: 'unsupported_parameter', message, param: name, cause: error });
  }
}
