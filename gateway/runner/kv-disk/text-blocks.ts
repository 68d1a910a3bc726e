/**
 * The blocks of a text, and which of them a runner needs that is to go on behind some of them. Layers may be in groups that see
 * windows of different sizes; the first group then sees all. A text is followed in the first group; of another group only the blocks
 * that the next row sees are needed (runner/engine/kv_windows.h, and longest_prefix of runner/engine/block_manager.cc).
 */
import { type BlockKey, keyAfter, keyBeforeFirst, keyBeside } from './block-keys.ts';
import type { IndexShape } from './index-layout.ts';

export interface Text {
  /** From its beginning on. */
  readonly ids: Uint32Array;
  readonly salt: Uint8Array;
}

/** Of each group of layers, the number of positions that a row sees; 0: all. kv_index_shape in runner/commands/loaded_model.cc. */
export function windowsOf(contents: string): readonly number[] {
  const [, windows = '0'] = / \d+x\d+x\d+x([\d,]+)(?: short)? \d+$/.exec(contents) ?? [];
  return windows.split(',').map(Number);
}

export class TextBlocks {
  readonly #shape: IndexShape;
  readonly #text: Text;
  readonly #windows: readonly number[];
  /** Of the first group, as far as they were asked for. */
  readonly #keys: BlockKey[] = [];
  /** Of the others, by group. */
  readonly #beside: BlockKey[][] = [];

  constructor(shape: IndexShape, text: Text) {
    this.#shape = shape;
    this.#text = text;
    this.#windows = windowsOf(shape.contents);
  }

  get numGroups(): number {
    return this.#windows.length;
  }

  /** Whole blocks. The last token is in none of them: its row gives the next token. */
  get numBlocks(): number {
    return Math.floor((this.#text.ids.length - 1) / this.#shape.blockSize);
  }

  idsOf(index: number): Uint8Array {
    const { blockSize } = this.#shape;
    const { buffer, byteOffset } = this.#text.ids.subarray(index * blockSize, (index + 1) * blockSize);
    return new Uint8Array(buffer, byteOffset, blockSize * 4);
  }

  key(group: number, index: number): BlockKey {
    while (this.#keys.length <= index) {
      const before = this.#keys.at(-1) ?? keyBeforeFirst(this.#shape.contents, this.#text.salt);
      this.#keys.push(keyAfter(before, this.idsOf(this.#keys.length)));
    }
    const first = this.#keys[index] as BlockKey;
    if (group === 0) return first;
    this.#beside[group] ??= [];
    const keys = this.#beside[group];
    keys[index] ??= keyBeside(first, group);
    return keys[index];
  }

  /** The first block of the group that the row after so many blocks needs. */
  firstSeen(group: number, numBlocks: number): number {
    const window = this.#windows[group] as number;
    const position = numBlocks * this.#shape.blockSize;
    if (window === 0 || position < window) return 0;
    return Math.floor((position - window + 1) / this.#shape.blockSize);
  }

  /** The most blocks, up to `most`, behind which a runner can go on that has these. */
  longest(has: (key: BlockKey) => boolean, most = this.numBlocks): number {
    let numBlocks = 0;
    while (numBlocks < most && has(this.key(0, numBlocks))) numBlocks += 1;
    for (let missing = this.#missing(numBlocks, has); missing !== undefined; ) {
      // No more blocks than up to this one do without it.
      numBlocks = missing;
      missing = this.#missing(numBlocks, has);
    }
    return numBlocks;
  }

  /** Those that a runner needs which has `begin` blocks and is to go on behind `end`. */
  needed(begin: number, end: number): { readonly group: number; readonly index: number }[] {
    const needed = [];
    for (let index = begin; index < end; index += 1)
      for (let group = 0; group < this.numGroups; group += 1)
        if (group === 0 || index >= this.firstSeen(group, end)) needed.push({ group, index });
    return needed;
  }

  /** The last block of a group but the first that the row after so many blocks needs and that is not there. */
  #missing(numBlocks: number, has: (key: BlockKey) => boolean): number | undefined {
    for (let group = 1; group < this.numGroups; group += 1)
      for (let index = numBlocks - 1; index >= this.firstSeen(group, numBlocks); index -= 1)
        if (!has(this.key(group, index))) return index;
    return undefined;
  }
}
