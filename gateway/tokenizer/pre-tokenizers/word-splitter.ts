/** Cuts text into words. Merges do not cross words. */
import { asJavaScript, type ExpressionName, expressions } from './expressions.ts';

/** A cut: an expression, whose matches and the texts between them are pieces, or a rule for numbers. */
export type Stage = ExpressionName | NumberRuleName;

const anyText = /[\s\S]+/uy;

export class WordSplitter {
  readonly #before: readonly ((text: string) => Iterable<string>)[];
  readonly #last: RegExp;

  constructor(stages: readonly Stage[]) {
    const last = stages.at(-1);
    const endsInExpression = last !== undefined && last in expressions;
    this.#last = endsInExpression ? covering(last as ExpressionName) : new RegExp(anyText);
    this.#before = (endsInExpression ? stages.slice(0, -1) : stages).map(cutter);
  }

  /** Cuts the text by all stages but a last expression, whose words are found by wordEnd(). */
  pieces(text: string): Iterable<string> {
    return this.#before.length === 0 ? [text] : this.#cut(text, 0);
  }

  /** The end of the word that begins at `at` in a piece. */
  wordEnd(piece: string, at: number): number {
    const last = this.#last;
    last.lastIndex = at;
    last.test(piece);
    return last.lastIndex;
  }

  *#cut(text: string, stage: number): Generator<string> {
    const cut = this.#before[stage];
    if (cut === undefined) yield text;
    else for (const piece of cut(text)) yield* this.#cut(piece, stage + 1);
  }
}

function cutter(stage: Stage): (text: string) => Iterable<string> {
  if (stage in numberRules) return (text) => cutNumbers(text, numberRules[stage as NumberRuleName]);
  const expression = covering(stage as ExpressionName);
  return function* (text) {
    for (let at = 0; at < text.length; ) {
      expression.lastIndex = at;
      expression.test(text);
      const end = expression.lastIndex;
      yield text.slice(at, end);
      at = end;
    }
  };
}

/** An expression that matches at every place of every text: either the given expression, or the text up to its next match. */
function covering(name: ExpressionName): RegExp {
  const expression = asJavaScript(expressions[name]);
  return new RegExp(`${expression}|(?:(?!${expression})[^])+`, 'uy');
}

/** How a stage cuts numbers. */
interface NumberRule {
  readonly digits: RegExp;
  /** Whether a number is separated from the text in front of it. Otherwise its first group stays with that text. */
  readonly isApart: boolean;
  /** Whether a number that a letter, mark, digit or connector follows directly is left as it is. */
  readonly isWhole: boolean;
}

const numberRules = {
  numbersInThrees: { digits: /\p{Nd}+/gu, isApart: false, isWhole: false },
  numbersApartInThrees: { digits: /\p{N}+/gu, isApart: true, isWhole: false },
  wholeNumbersInThrees: { digits: /\p{Nd}+/gu, isApart: true, isWhole: true },
} as const satisfies Record<string, NumberRule>;

type NumberRuleName = keyof typeof numberRules;

const groupDigits = 3;
const wordCharacter = /[\p{L}\p{M}\p{N}\p{Pc}]/uy;

/**
 * Cuts numbers into groups of three digits, counted from the end as people read them: 1234567 becomes 1, 234, 567. No
 * expression does that in time linear in the number. Yields the pieces of a text. No piece is empty.
 */
function* cutNumbers(text: string, { digits, isApart, isWhole }: NumberRule): Generator<string> {
  let start = 0;
  for (const found of text.matchAll(digits)) {
    const end = found.index + found[0].length;
    wordCharacter.lastIndex = end;
    if (isWhole && wordCharacter.test(text)) continue;
    const characters = [...found[0]];
    let at = found.index;
    for (const [index, character] of characters.entries()) {
      const isCut = (characters.length - index) % groupDigits === 0 || (isApart && index === 0);
      if (isCut && at > start) {
        yield text.slice(start, at);
        start = at;
      }
      at += character.length;
    }
    if (isApart) {
      yield text.slice(start, end);
      start = end;
    }
  }
  if (start < text.length) yield text.slice(start);
}
