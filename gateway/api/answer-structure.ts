import type { Model } from '../models/model.ts';
import type { Grammar } from '../runner/runner.ts';
import { type Structure, structureBy } from './openai/grammar-fields.ts';
import type { ToolOffer } from './tool-offer.ts';

/**
 * The structure of an answer: the form alone if no tool can be called, otherwise the offer's, which includes the form.
 * field: the name of the form, for errors.
 */
export async function answerStructure(
  field: string,
  form: Grammar | undefined,
  offer: ToolOffer | undefined,
  model: Pick<Model, 'id' | 'tokenizer' | 'stopIds'>,
): Promise<Structure> {
  const isForm = form !== undefined && offer?.calls === undefined;
  if (isForm) return structureBy(field, form, model, model.stopIds);
  return offer === undefined ? {} : structureBy('tools', offer.grammar, model, model.stopIds);
}
