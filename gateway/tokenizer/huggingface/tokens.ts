/** Finds the text that each id of a tokenizer.json stands for. */
import { type PackedTexts, TextPacker } from '../packed-texts.ts';
import { TokenizerError } from '../tokenizer-error.ts';
import { type AddedTokenJson, shown } from './schema.ts';
import type { TokenEntries } from './token-entries.ts';
import { tokensMax } from './vocab.ts';

const none = -1;

export interface Tokens {
  readonly entries: TokenEntries;
  /** The entry of each id; -1 for an id without a token. */
  readonly entryOf: Int32Array;
  /** For each id: 1 if it is in the model's own vocabulary. */
  readonly isOfModel: Uint8Array;
}

/**
 * entries: the vocabulary, to which the added tokens are added. vocabSize: the number of ids of the model, which no id may
 * reach; 0 if it is unknown. Throws TokenizerError.
 */
export function tokensOf(entries: TokenEntries, added: readonly AddedTokenJson[], vocabSize: number): Tokens {
  const numOfModel = entries.length;
  let numTokens = vocabSize;
  for (let entry = 0; entry < numOfModel; entry++) numTokens = Math.max(numTokens, entries.idOf(entry) + 1);
  for (const { id, content } of added) {
    if (id >= tokensMax)
      throw new TokenizerError(
        `its added token ${shown(content)} has the id ${id}; at most ${tokensMax - 1} is allowed`,
      );
    numTokens = Math.max(numTokens, id + 1);
  }
  if (numOfModel === 0) throw new TokenizerError('its vocabulary is empty');
  if (vocabSize > 0 && numTokens > vocabSize)
    throw new TokenizerError(
      `its tokenizer has the token ${numTokens - 1}, but its config.json says that the model has ${vocabSize} tokens`,
    );
  const entryOf = new Int32Array(numTokens).fill(none);
  const isOfModel = new Uint8Array(numTokens);
  for (let entry = 0; entry < numOfModel; entry++) {
    const id = entries.idOf(entry);
    const other = entryOf[id] as number;
    if (other !== none) throw bothHaveId(entries, other, entries.textOf(entry), id);
    entryOf[id] = entry;
    isOfModel[id] = 1;
  }
  for (const { id, content } of added) {
    const other = entryOf[id] as number;
    if (other !== none && entries.textOf(other) !== content) throw bothHaveId(entries, other, content, id);
    // A text with several ids gets the highest of them when it is looked up.
    const found = entries.findText(content);
    entryOf[id] = entries.putText(content, Math.max(id, found === none ? none : entries.idOf(found)));
  }
  return { entries, entryOf, isOfModel };
}

/** The text of each id, empty for an id without a token. */
export function packedTexts({ entries, entryOf }: Tokens): PackedTexts {
  const packer = new TextPacker(entryOf.length, entryOf.length * 8);
  for (const entry of entryOf) {
    if (entry === none) {
      packer.begin(0);
      packer.end(0);
      continue;
    }
    const { bytes, at } = packer.begin(entries.lengthOf(entry));
    packer.end(entries.copyTo(entry, bytes, at));
  }
  return packer.finish();
}

function bothHaveId(entries: TokenEntries, one: number, other: string, id: number): TokenizerError {
  return new TokenizerError(
    `the tokens ${shown(entries.textOf(one))} and ${shown(other)} both have the id ${id}`,
  );
}
