/**
 * Encodes the spellings of a model's tokens as frames for a runner (docs/protocol.md, "Grammars"). They are made once for a
 * model and sent to each of its runners that gets a grammar.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { VocabularyFrames } from '../runner.ts';
import { encodeFrame, maxBytesToRunner } from './frame.ts';
import { encodeToRunner } from './to-runner.ts';

/** A token with a longer spelling is sent without one, so that no grammar draws it. */
export const maxSpellingBytes = 4096;
/** Limit of all spellings together. */
export const maxVocabularyBytes = 2 ** 25;
/** Limits of one frame. Making a frame takes about a millisecond, and each is made in a turn of the event loop of its own. */
const maxFrameTokens = 8192;
const maxFrameSpellingBytes = 2 ** 18;

/**
 * spelling: the bytes that an id below numTokens adds to a text; empty for a control token. Rejects with RangeError if all
 * spellings together are more than a runner takes.
 */
export async function vocabularyFrames(
  numTokens: number,
  spelling: (id: number) => Uint8Array,
): Promise<VocabularyFrames> {
  const told = (id: number): Uint8Array => {
    const bytes = spelling(id);
    return bytes.length > maxSpellingBytes ? bytes.subarray(0, 0) : bytes;
  };
  let numBytes = 0;
  for (let id = 0; id < numTokens; id++) {
    numBytes += told(id).length;
    if (id % maxFrameTokens === maxFrameTokens - 1) await nextTurn();
  }
  if (numBytes > maxVocabularyBytes) {
    const what = `The tokens of the model are spelled with ${numBytes} bytes`;
    throw new RangeError(`${what}; a runner takes ${maxVocabularyBytes} for grammars.`);
  }
  const frames: Uint8Array[] = [];
  for (let firstId = 0; firstId < numTokens; ) {
    const parts: Uint8Array[] = [];
    let size = 0;
    for (let id = firstId; id < numTokens && parts.length < maxFrameTokens; id++) {
      const bytes = told(id);
      if (size + bytes.length > maxFrameSpellingBytes) break;
      parts.push(bytes);
      size += bytes.length;
    }
    const lengths = parts.map(({ length }) => length);
    const part = { numTokens, numBytes, firstId, lengths, spellings: Buffer.concat(parts, size) };
    frames.push(encodeFrame(encodeToRunner({ type: 'vocabulary', ...part }), maxBytesToRunner));
    firstId += parts.length;
    await nextTurn();
  }
  return { numTokens, frames };
}
