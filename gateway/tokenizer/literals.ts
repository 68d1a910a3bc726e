/**
 * Finds literals of special tokens in text: the leftmost first, and of those that begin at the same place the longest. It uses
 * a trie over UTF-16 units, so that text which almost has a literal costs little more than other text.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { TokenizerError } from './tables.ts';

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
