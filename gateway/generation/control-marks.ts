import type { Tokenizer } from '../tokenizer/tokenizer.ts';

/** Control tokens give no text. Those that a format is written with are marks, which only the format's parsers see. */

/** Half of a surrogate pair, which no decoded text has. So ordinary tokens cannot write what stands for a control token. */
export const markSign = '\ud800';

/** Marks by the ids of their tokens. */
export type Marks = ReadonlyMap<number, string>;

/** A control token as formats write it. */
export function markOf(literal: string): string {
  return markSign + literal;
}

/** The marks of control tokens that the tokenizer has. */
export function marksOf(literals: readonly string[], tokenizer: Pick<Tokenizer, 'encode'>): Marks {
  return new Map(
    literals.map((literal) => {
      const [id] = tokenizer.encode(literal, { addSpecial: false, parseSpecial: true });
      return [id as number, markOf(literal)] as const;
    }),
  );
}

/** The marks of these control tokens; the tokenizer's other ids are left out. */
export function marksOfIds(ids: readonly number[], tokenizer: Pick<Tokenizer, 'bytes' | 'isControl'>): Marks {
  const control = ids.filter((id) => tokenizer.isControl(id));
  return new Map(control.map((id) => [id, markOf(Buffer.from(tokenizer.bytes(id)).toString())]));
}

/** The text that clients see. */
export function unmarked(text: string): string {
  return text.replaceAll(markSign, '');
}
