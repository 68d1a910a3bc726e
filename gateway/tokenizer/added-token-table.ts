/**
 * Added tokens in the form in which the model's reader sends them. Copying thousands of objects at once would hold up the event
 * loop.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { packTexts, stringAt } from './packed-texts.ts';
import type { AddedToken, AddedTokenTable } from './tables.ts';

const flags = { isControl: 1, stripsLeft: 2, stripsRight: 4, isWholeWord: 8 } as const;
const names = Object.keys(flags) as (keyof typeof flags)[];
/** The number of tokens that are unpacked in one turn of the event loop. */
const turnTokens = 256;

export function packAddedTokens(tokens: readonly AddedToken[]): AddedTokenTable {
  const ids = new Int32Array(tokens.length);
  const bits = new Uint8Array(tokens.length);
  for (const [index, token] of tokens.entries()) {
    ids[index] = token.id;
    for (const name of names) if (token[name]) bits[index] = (bits[index] as number) | flags[name];
  }
  return { contents: packTexts(tokens.map(({ content }) => Buffer.from(content))), ids, flags: bits };
}

export async function unpackAddedTokens({
  contents,
  ids,
  flags: bits,
}: AddedTokenTable): Promise<AddedToken[]> {
  const tokens: AddedToken[] = [];
  for (let index = 0; index < ids.length; index++) {
    const has = (name: keyof typeof flags) => ((bits[index] as number) & flags[name]) !== 0;
    tokens.push({
      id: ids[index] as number,
      content: stringAt(contents, index),
      isControl: has('isControl'),
      stripsLeft: has('stripsLeft'),
      stripsRight: has('stripsRight'),
      isWholeWord: has('isWholeWord'),
    });
    if (index % turnTokens === turnTokens - 1) await nextTurn();
  }
  return tokens;
}
