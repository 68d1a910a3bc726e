/** How a model's tokens are spelled, for runners that follow grammars: made when the first grammar comes, kept with its tokenizer. */
import { callMarks } from '../prompt/tool-call-format.ts';
import { vocabularyFrames } from '../runner/protocol/vocabulary-frames.ts';
import type { VocabularyFrames } from '../runner/runner.ts';
import { inSlices } from '../system/cooperative-scheduler.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';

type Spelled = Pick<Tokenizer, 'vocabSize' | 'bytes' | 'isControl'>;

const nothing = new Uint8Array(0);
/** In front of a control token that grammars of tools name by its id: no text has this byte, and so no other grammar draws it. */
const noText = 0xff;
const marks: ReadonlySet<string> = new Set(callMarks);
const known = new WeakMap<Spelled, Promise<VocabularyFrames>>();

/** All who ask for a tokenizer's have the same. Rejects with RangeError where the vocabulary is more than a runner takes. */
export function spellingsOf(tokenizer: Spelled): Promise<VocabularyFrames> {
  let frames = known.get(tokenizer);
  if (frames === undefined) {
    // As text-decoder.ts has it: control tokens add nothing to a text.
    const spelling = (id: number) => {
      const bytes = tokenizer.bytes(id);
      if (!tokenizer.isControl(id)) return bytes;
      return marks.has(Buffer.from(bytes).toString('latin1')) ? Uint8Array.of(noText, ...bytes) : nothing;
    };
    frames = inSlices(vocabularyFrames(tokenizer.vocabSize, spelling));
    known.set(tokenizer, frames);
  }
  return frames;
}
