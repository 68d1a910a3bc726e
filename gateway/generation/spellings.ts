/** How a model's tokens are spelled, for runners that follow grammars: made when the first grammar comes, kept with its tokenizer. */
import { vocabularyFrames } from '../runner/protocol/vocabulary-frames.ts';
import type { VocabularyFrames } from '../runner/runner.ts';
import { inSlices } from '../system/cooperative-scheduler.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';

type Spelled = Pick<Tokenizer, 'vocabSize' | 'bytes' | 'isControl'>;

const nothing = new Uint8Array(0);
const known = new WeakMap<Spelled, Promise<VocabularyFrames>>();

/** All who ask for a tokenizer's have the same. Rejects with RangeError where the vocabulary is more than a runner takes. */
export function spellingsOf(tokenizer: Spelled): Promise<VocabularyFrames> {
  let frames = known.get(tokenizer);
  if (frames === undefined) {
    // As text-decoder.ts has it: control tokens add nothing to a text.
    const spelling = (id: number) => (tokenizer.isControl(id) ? nothing : tokenizer.bytes(id));
    frames = inSlices(vocabularyFrames(tokenizer.vocabSize, spelling));
    known.set(tokenizer, frames);
  }
  return frames;
}
