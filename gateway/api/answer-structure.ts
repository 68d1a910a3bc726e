import type { Model } from '../models/model.ts';
import type { Call } from './call.ts';
import { type Structure, structureBy } from './openai/grammar-fields.ts';
import type { ToolOffer } from './tool-offer.ts';

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
