import { setImmediate as nextTurn } from 'node:timers/promises';
import { packTexts, stringAt } from './packed-texts.ts';
import { type AddedToken, type AddedTokenTable, TokenizerError } from './tables.ts';
import type { Steps } from './tokenizer.ts';

/** Cuts text at the added tokens whose literals stand in it. */

/** A part of a prompt, with what its author may write in it. */
export interface TextSegment {
  readonly text: string;
  /** Whether literals of control tokens, such as `<|im_start|>`, become those tokens. Otherwise they are plain text. */
  readonly parseSpecial: boolean;
}

/** Text that is still to be encoded, or a token that was found. */
export type Piece =
  | { readonly text: string; readonly token?: undefined }
  | { readonly text?: undefined; readonly token: AddedToken };

/** The number of tokens that are cut out in one step. */
const stepTokens = 2048;
const spaceAtStart = /^[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;
const isSpace = /[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
const wordCharacterAtStart = /^[\p{L}\p{M}\p{N}\p{Pc}]/u;
const wordCharacterAtEnd = /[\p{L}\p{M}\p{N}\p{Pc}]$/u;

export class AddedTokens {
  readonly #all: LiteralFinder<AddedToken>;
  readonly #userDefined: LiteralFinder<AddedToken>;
  /** Whether any token removes the white space beside it. */
  readonly strip: boolean;

  static async of(tokens: readonly AddedToken[]): Promise<AddedTokens> {
    const literals = tokens.map((token) => [token.content, token] as const);
    const all = await LiteralFinder.of(literals);
    const userDefined = await LiteralFinder.of(literals.filter(([, { isControl }]) => !isControl));
    const strip = tokens.some(({ stripsLeft, stripsRight }) => stripsLeft || stripsRight);
    return new AddedTokens(all, userDefined, strip);
  }

  private constructor(
    all: LiteralFinder<AddedToken>,
    userDefined: LiteralFinder<AddedToken>,
    strip: boolean,
  ) {
    this.#all = all;
    this.#userDefined = userDefined;
    this.strip = strip;
  }

  /** Returns the pieces of all segments in order. No text is empty, and adjacent texts are joined. */
  *cut(segments: readonly TextSegment[]): Steps<Piece[]> {
    const pieces: Piece[] = [];
    let isStripping = false;
    let numTokens = 0;
    const pushText = (added: string): void => {
      const text = isStripping ? added.replace(spaceAtStart, '') : added;
      if (text === '') return;
      isStripping = false;
      const last = pieces.at(-1);
      if (last?.text === undefined) pieces.push({ text });
      else pieces[pieces.length - 1] = { text: last.text + text };
    };
    for (const { text, parseSpecial } of segments) {
      let at = 0;
      for (const segment of (parseSpecial ? this.#all : this.#userDefined).split(text)) {
        const end = at + segment.text.length;
        const token = segment.match;
        if (token === undefined || (token.isWholeWord && touchesWord(text, at, end))) {
          pushText(segment.text);
        } else {
          const last = pieces.at(-1);
          if (token.stripsLeft && last?.text !== undefined) {
            pieces.pop();
            const kept = trimEnd(last.text);
            if (kept !== '') pieces.push({ text: kept });
          }
          pieces.push({ token });
          isStripping = token.stripsRight;
          if (++numTokens % stepTokens === 0) yield;
        }
        at = end;
      }
    }
    return pieces;
  }
}

function touchesWord(text: string, start: number, end: number): boolean {
  return (
    wordCharacterAtEnd.test(text.slice(Math.max(0, start - 2), start)) ||
    wordCharacterAtStart.test(text.slice(end, end + 2))
  );
}

/** Trims the end without a regular expression, which would start at every space of the text. */
export function trimEnd(text: string): string {
  let end = text.length;
  while (end > 0 && isSpace.test(text[end - 1] as string)) end--;
  return text.slice(0, end);
}

const flags = { isControl: 1, stripsLeft: 2, stripsRight: 4, isWholeWord: 8 } as const;
const names = Object.keys(flags) as (keyof typeof flags)[];
/** The number of tokens that are unpacked in one turn of the event loop. */
const turnTokens = 256;

/**
 * Added tokens in the form in which the model's reader sends them. Copying thousands of objects at once would hold up the
 * event loop.
 */
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

/**
 * Finds literals of special tokens in text: the leftmost first, and of those that begin at the same place the longest. It uses
 * a trie over UTF-16 units, so that text which almost has a literal costs little more than other text.
 */

/** Longer literals are refused. This bounds the cost of one place in a text. */
const literalCharsMax = 256;
/** The limit for all literals together. It bounds the trie, which has at most one node for each character. */
const allCharsMax = 2 ** 20;
/** The number of literals that are added in one turn of the event loop. */
const turnLiterals = 64;

/** Text between literals, or a literal with the value that it stands for. */
type Segment<T> =
  | { readonly text: string; readonly match?: undefined }
  | { readonly text: string; readonly match: T };

interface Node<T> {
  /** The value of the literal that ends at this node. */
  match?: T;
  readonly children: Map<number, Node<T>>;
}

export class LiteralFinder<T extends NonNullable<unknown>> {
  readonly #root: Node<T> = { children: new Map() };
  /** For each UTF-16 unit: 1 if a literal begins with it. This alone rules out most places of a text. */
  readonly #begins = new Uint8Array(0x1_0000);

  /**
   * Adds the literals in several turns of the event loop. Throws TokenizerError if a literal is empty or too long, or if there
   * are too many.
   */
  static async of<T extends NonNullable<unknown>>(
    literals: Iterable<readonly [string, T]>,
  ): Promise<LiteralFinder<T>> {
    const finder = new LiteralFinder<T>();
    let allChars = 0;
    let numLiterals = 0;
    for (const [literal, match] of literals) {
      allChars += literal.length;
      if (allChars > allCharsMax) {
        throw new TokenizerError(`its special tokens have more than ${allCharsMax} characters in all`);
      }
      finder.#add(literal, match);
      if (++numLiterals % turnLiterals === 0) await nextTurn();
    }
    return finder;
  }

  #add(literal: string, match: T): void {
    if (literal.length === 0 || literal.length > literalCharsMax) {
      throw new TokenizerError(
        `a special token has ${literal.length} characters; it must have 1 to ${literalCharsMax}`,
      );
    }
    this.#begins[literal.charCodeAt(0)] = 1;
    let node = this.#root;
    for (let i = 0; i < literal.length; i++) {
      const unit = literal.charCodeAt(i);
      let child = node.children.get(unit);
      if (child === undefined) {
        child = { children: new Map() };
        node.children.set(unit, child);
      }
      node = child;
    }
    node.match = match;
  }

  /** Cuts the text into literals and the text between them, in order. No text is empty. */
  *split(text: string): Generator<Segment<T>> {
    let start = 0;
    for (let at = 0; at < text.length; ) {
      const found = this.#begins[text.charCodeAt(at)] === 1 ? this.#longestAt(text, at) : undefined;
      if (found === undefined) {
        at++;
        continue;
      }
      if (start < at) yield { text: text.slice(start, at) };
      yield { text: text.slice(at, found.end), match: found.match };
      at = found.end;
      start = at;
    }
    if (start < text.length) yield { text: text.slice(start) };
  }

  #longestAt(text: string, at: number): { match: T; end: number } | undefined {
    let longest: { match: T; end: number } | undefined;
    let node = this.#root.children.get(text.charCodeAt(at));
    for (let end = at + 1; node !== undefined; end++) {
      if (node.match !== undefined) longest = { match: node.match, end };
      node = end < text.length ? node.children.get(text.charCodeAt(end)) : undefined;
    }
    return longest;
  }
}
