/**
 * The spellings of a model's tokens, for runners that follow grammars. They are made for the first grammar and kept as long as
 * the tokenizer.
 */
import { harmonyMarks } from '../prompt/harmony-format.ts';
import { callMarks } from '../prompt/tool-call-format.ts';
import { vocabularyFrames } from '../runner/protocol/to-runner.ts';
import type { VocabularyFrames } from '../runner/runner.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';

type Spelled = Pick<Tokenizer, 'vocabSize' | 'bytes' | 'isControl'>;

const nothing = new Uint8Array(0);
/**
 * This byte stands in front of the control tokens that grammars name. No text has it, so no other grammar allows these
 * tokens.
 */
const noText = 0xff;
const marks: ReadonlySet<string> = new Set([...callMarks, ...Object.values(harmonyMarks)]);
const known = new WeakMap<Spelled, Promise<VocabularyFrames>>();

/**
 * Every caller gets the same spellings of a tokenizer. Rejects with RangeError if the vocabulary is larger than a runner takes.
 */
export function tokenBytesOf(tokenizer: Spelled): Promise<VocabularyFrames> {
  let frames = known.get(tokenizer);
  if (frames === undefined) {
    // Control tokens add nothing to a text, as in text-decoder.ts.
    const spelling = (id: number) => {
      const bytes = tokenizer.bytes(id);
      if (!tokenizer.isControl(id)) return bytes;
      return marks.has(Buffer.from(bytes).toString('latin1')) ? Uint8Array.of(noText, ...bytes) : nothing;
    };
    frames = vocabularyFrames(tokenizer.vocabSize, spelling);
    known.set(tokenizer, frames);
  }
  return frames;
}
