/** Reads the vocabulary of a tokenizer.json: an object of tokens and their ids. */
import { TokenizerError } from '../tokenizer-error.ts';
import { JsonBytes } from './json-bytes.ts';
import { shown } from './schema.ts';
import { TokenEntries } from './token-entries.ts';

/** The most tokens of a vocabulary. All ids are smaller than this. */
export const tokensMax = 2 ** 20;
const none = -1;

/** json: at the beginning of the object. Throws TokenizerError or JsonFault. */
export function readVocab(json: JsonBytes): TokenEntries {
  const entries = new TokenEntries();
  /** For each entry with an invalid id: the place of that id in the file. A later id of the same token may be valid. */
  const faults = new Map<number, number>();
  json.object((token) => {
    const entry = entries.put(token.bytes, token.start, token.end, none);
    if (entry === tokensMax)
      throw new TokenizerError(
        `its vocabulary has more than ${tokensMax} tokens, which are the most that are allowed`,
      );
    if (faults.size > 0) faults.delete(entry);
    const { at } = json;
    const small = json.smallNumber();
    const id = small === none ? json.value() : small;
    if (typeof id === 'number' && Number.isInteger(id) && id >= 0 && id < tokensMax) entries.setId(entry, id);
    else faults.set(entry, at);
  });
  for (const [entry, at] of faults)
    throw new TokenizerError(
      `its token ${shown(entries.textOf(entry))} has the id ${shown(new JsonBytes(json.bytes, at).value())}; ids are integers from 0 to ${tokensMax - 1}`,
    );
  return entries;
}
