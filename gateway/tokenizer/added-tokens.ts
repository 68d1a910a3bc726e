/** Cuts text at the tokens that are found in it as they are written. */
import type { Task } from '../system/cooperative-scheduler.ts';
import { LiteralFinder } from './literals.ts';
import type { AddedToken } from './tables.ts';

/** A part of a prompt, as whoever wrote it may write it. */
export interface TextSegment {
  readonly text: string;
  /** Literals of control tokens, such as `<|im_start|>`, are those tokens; otherwise they are plain text. */
  readonly parseSpecial: boolean;
}

/** Text to be merged, or a token that was found. */
export type Piece =
  | { readonly text: string; readonly token?: undefined }
  | { readonly text?: undefined; readonly token: AddedToken };

/** Tokens taken in a step. */
const stepTokens = 2048;
const spaceAtStart = /^[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;
const isSpace = /[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
const wordCharacterAtStart = /^[\p{L}\p{M}\p{N}\p{Pc}]/u;
const wordCharacterAtEnd = /[\p{L}\p{M}\p{N}\p{Pc}]$/u;

export class AddedTokens {
  readonly #all: LiteralFinder<AddedToken>;
  readonly #userDefined: LiteralFinder<AddedToken>;
  /** Whether any of them takes white space with it. */
  readonly strip: boolean;

  static *of(tokens: readonly AddedToken[]): Task<AddedTokens> {
    const literals = tokens.map((token) => [token.content, token] as const);
    const all = yield* LiteralFinder.of(literals);
    const userDefined = yield* LiteralFinder.of(literals.filter(([, { isControl }]) => !isControl));
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

  /** The pieces of all segments, in order; no text is empty, and two texts that meet are one. */
  *cut(segments: readonly TextSegment[]): Task<Piece[]> {
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

/** A regular expression for the end would look at each space of a text. */
function trimEnd(text: string): string {
  let end = text.length;
  while (end > 0 && isSpace.test(text[end - 1] as string)) end--;
  return text.slice(0, end);
}
