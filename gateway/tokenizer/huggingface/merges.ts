/** Turns the merges of a tokenizer.json into a table of ids. */
import { MergeTable, newMergeSlots } from '../merge-table.ts';
import type { PackedTexts } from '../packed-texts.ts';
import { TextIndex } from '../text-index.ts';
import { TokenizerError } from '../tokenizer-error.ts';
import { foundTokens, roles, type Vocabulary } from '../vocabulary.ts';
import { JsonBytes } from './json-bytes.ts';
import { type MergeEntries, mergeAt, mergeInts, mergesMax } from './merge-entries.ts';
import { shown } from './schema.ts';
import type { TokenEntries } from './token-entries.ts';

const none = -1;

/** Returns the slots of a MergeTable. bytes: the file, for messages. role: the role of each id. Throws TokenizerError. */
export function mergesOf(
  bytes: Buffer,
  merges: MergeEntries,
  entries: TokenEntries,
  role: Uint8Array,
  vocabulary: Vocabulary,
): Int32Array {
  const { entries: found, numMerges, start } = merges;
  if (numMerges > mergesMax)
    throw new TokenizerError(`it has ${numMerges} merges; at most ${mergesMax} are allowed`);
  const slots = newMergeSlots(numMerges);
  const table = new MergeTable(slots);
  const isPlain = plainTokens(role, vocabulary);
  const { texts, isControl } = vocabulary;
  const index = new TextIndex(texts, vocabulary.index);
  const fault = (rank: number, what: string): TokenizerError => {
    const merge = shown(mergeAt(new JsonBytes(bytes, start), rank));
    return new TokenizerError(`merge ${rank}, ${merge}, ${what}`);
  };
  for (let rank = 0; rank < numMerges; rank++) {
    const at = rank * mergeInts;
    const leftEntry = found[at] as number;
    const rightEntry = found[at + 1] as number;
    const bothEntry = found[at + 2] as number;
    if (leftEntry === none || rightEntry === none || bothEntry === none)
      throw fault(rank, 'does not join two tokens into a third');
    const left = entries.idOf(leftEntry);
    const right = entries.idOf(rightEntry);
    let both = entries.idOf(bothEntry);
    if (isPlain[left] === 0 || isPlain[right] === 0 || isPlain[both] === 0) {
      // Text must never become a control token by merging, so merges with control tokens are left out.
      const isLeftOut = isControl[left] === 1 || isControl[right] === 1;
      both = isLeftOut ? none : findJoined(index, texts, left, right);
      if (both === none) continue;
    }
    if (!table.add(left, right, rank, both)) throw fault(rank, 'occurs twice');
  }
  return slots;
}

/**
 * For each id: 1 if the token stands for exactly what it is written with. Two such tokens merge into the token that is written
 * like both together.
 */
function plainTokens(role: Uint8Array, vocabulary: Vocabulary): Uint8Array {
  const isPlain = foundTokens(vocabulary);
  for (let id = 0; id < role.length; id++) if (role[id] !== roles.ordinary) isPlain[id] = 0;
  return isPlain;
}

function findJoined(index: TextIndex, { bytes, starts }: PackedTexts, left: number, right: number): number {
  return index.findJoined(
    bytes,
    starts[left] as number,
    starts[left + 1] as number,
    bytes,
    starts[right] as number,
    starts[right + 1] as number,
  );
}
