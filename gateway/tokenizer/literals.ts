/**
 * Finds literals of special tokens in text: leftmost first, and of those that begin at the same place the longest.
 * Time is linear in the text: at each place, at most one look-up for each different length of a literal.
 */

/** A literal longer than this is refused; it bounds what one place in a text can cost. */
export const literalCharsMax = 256;

export type Segment<T> =
  | { readonly text: string; readonly match?: undefined }
  | { readonly text: string; readonly match: T };

export class LiteralFinder<T> {
  readonly #byLiteral: ReadonlyMap<string, T>;
  /** By first UTF-16 unit: lengths of the literals that begin with it, longest first. */
  readonly #lengths = new Map<number, number[]>();

  constructor(literals: Iterable<readonly [string, T]>) {
    this.#byLiteral = new Map(literals);
    for (const literal of this.#byLiteral.keys()) {
      if (literal.length === 0 || literal.length > literalCharsMax) {
        throw new RangeError(`A literal has ${literal.length} characters; 1 to ${literalCharsMax} can be.`);
      }
      const unit = literal.charCodeAt(0);
      const lengths = this.#lengths.get(unit) ?? [];
      if (!lengths.includes(literal.length)) lengths.push(literal.length);
      lengths.sort((a, b) => b - a);
      this.#lengths.set(unit, lengths);
    }
  }

  /** The text in order, cut into literals and what lies between them, which is never empty. */
  *split(text: string): Generator<Segment<T>> {
    let start = 0;
    for (let at = 0; at < text.length; ) {
      const literal = this.#at(text, at);
      if (literal === undefined) {
        at++;
        continue;
      }
      if (start < at) yield { text: text.slice(start, at) };
      yield { text: literal, match: this.#byLiteral.get(literal) as T };
      at += literal.length;
      start = at;
    }
    if (start < text.length) yield { text: text.slice(start) };
  }

  #at(text: string, at: number): string | undefined {
    for (const length of this.#lengths.get(text.charCodeAt(at)) ?? []) {
      const candidate = text.slice(at, at + length);
      if (this.#byLiteral.has(candidate)) return candidate;
    }
    return undefined;
  }
}
