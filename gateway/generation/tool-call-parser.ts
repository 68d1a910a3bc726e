import type { ToolCallFormat } from '../prompt/tool-call-format.ts';
import { begunUnits } from './begun-mark.ts';
import { type ArgumentsReader, argumentsReader, type KindOf } from './call-arguments.ts';

/** How the calls of one answer are written. */
export interface CallSyntax {
  readonly format: ToolCallFormat;
  /** Texts in the format that are control tokens, by their ids, each with markOf in front: the only ones that are told. */
  readonly marks: ReadonlyMap<number, string>;
  /** Where a call has each argument by itself. */
  readonly kindOf: KindOf;
  /**
   * Of the tools, where an answer is either calls or a text of a form of its own: such a text is read for no calls. Absent:
   * there may be both.
   */
  readonly names?: readonly string[];
}

/** Half of a character, which no decoded text has: what a control token tells cannot be written by other tokens. */
const markSign = '\ud800';

/** A control token as formats have it. */
export function markOf(literal: string): string {
  return markSign + literal;
}

/** What is new of a call. */
export interface CallPiece {
  /** Which call of the answer, from 0. */
  readonly index: number;
  /** With the first piece of a call. */
  readonly name?: string;
  /** With the first piece: units of the text that came with it which stand in front of the call. */
  readonly at?: number;
  /** JSON, or a part of it. */
  readonly arguments: string;
}

export interface ParsedText {
  readonly text: string;
  /** One piece of each call at most. */
  readonly calls: readonly CallPiece[];
}

/** The longest name of a tool. What is no name is text. */
export const maxToolNameUnits = 64;

type State = 'text' | 'name' | 'arguments' | 'end' | 'list' | 'gap';

/**
 * Calls of tools out of an answer that comes in pieces; how it was cut makes no difference. The answer follows the grammar
 * of tool-grammar.ts, or is cut short: what is not as the format has it is text. Held back is what may still begin a call,
 * and a name that is not whole.
 */
export class ToolCallParser {
  readonly #format: ToolCallFormat;
  readonly #kindOf: KindOf;
  readonly #names: readonly string[] | undefined;
  #state: State = 'text';
  /** Read, and neither sent nor known to be of a call. */
  #held = '';
  #hasText = false;
  #index = -1;
  /** Of the call whose arguments come. */
  #arguments: ArgumentsReader | undefined;
  /** Calls whose arguments are whole. */
  #numWhole = 0;

  constructor({ format, kindOf, names }: Omit<CallSyntax, 'marks'>) {
    this.#format = format;
    this.#kindOf = kindOf;
    this.#names = names;
  }

  get numWhole(): number {
    return this.#numWhole;
  }

  push(text: string): ParsedText {
    this.#held += text;
    const found = new Found();
    while (this.#step(found)) {
      // Each step takes something away from what is held, or goes on to the next state.
    }
    return { text: found.text, calls: found.calls };
  }

  /** The end: what was held back and is no call. The name of a call that is not whole is none. */
  flush(): string {
    const rest = this.#state === 'text' ? this.#held : '';
    this.#held = '';
    return unmarked(rest);
  }

  /** Whether there may be more to do. */
  #step(found: Found): boolean {
    switch (this.#state) {
      case 'text':
        return this.#readText(found);
      case 'name':
        return this.#readName(found);
      case 'arguments':
        return this.#readArguments(found);
      case 'end':
        return this.#readEnd();
      case 'list':
        return this.#readList();
      case 'gap':
        return this.#skipGap();
    }
  }

  #readText(found: Found): boolean {
    const begin = this.#begin;
    const at = this.#placeOf(begin);
    if (at === undefined) {
      this.#send(found, this.#held.length - this.#heldUnits(begin));
      return false;
    }
    this.#send(found, at);
    this.#held = this.#held.slice(begin.length);
    this.#state = 'name';
    return true;
  }

  /** Of the first call behind a text. */
  get #begin(): string {
    const { opening = '', begin } = this.#format;
    return opening + begin;
  }

  /** Where the answer has this text, if it counts there. */
  #placeOf(begin: string): number | undefined {
    const at = this.#held.indexOf(begin);
    return at < 0 || (!this.#mayBegin && at === 0) || (at > 0 && this.#isWhole) ? undefined : at;
  }

  /** A call that is a whole answer begins where the answer does, as do calls that no text may stand beside. */
  get #isWhole(): boolean {
    return this.#format.separator === undefined || this.#names !== undefined;
  }

  get #mayBegin(): boolean {
    if (!this.#isWhole) return true;
    return !this.#hasText && (this.#index < 0 || this.#format.separator !== undefined);
  }

  /** Units at the end that may still become `begin`. */
  #heldUnits(begin: string): number {
    if (this.#isWhole) return this.#mayBegin && begin.startsWith(this.#held) ? this.#held.length : 0;
    return begunUnits(this.#held, begin);
  }

  #send(found: Found, units: number): void {
    if (units === 0) return;
    found.text += unmarked(this.#held.slice(0, units));
    this.#held = this.#held.slice(units);
    this.#hasText = true;
  }

  #readName(found: Found): boolean {
    const { between } = this.#format;
    const at = this.#held.indexOf(between);
    const isTooLong = at < 0 ? this.#held.length >= maxToolNameUnits + between.length : at > maxToolNameUnits;
    if (isTooLong || !this.#mayBeCall) {
      found.text += unmarked(this.#begin);
      this.#hasText = true;
      this.#state = 'text';
      return true;
    }
    if (at < 0) return false;
    this.#index++;
    const name = this.#held.slice(0, at);
    found.begin(this.#index, name);
    this.#arguments = argumentsReader(this.#format, name, this.#kindOf);
    this.#held = this.#held.slice(at + between.length);
    this.#state = 'arguments';
    return true;
  }

  /** Of what is held, where a name should be: a text of a form of its own may begin as a call does. */
  get #mayBeCall(): boolean {
    if (this.#names === undefined) return true;
    return this.#names.some((name) => {
      const whole = name + this.#format.between;
      return whole.startsWith(this.#held) || this.#held.startsWith(whole);
    });
  }

  #readArguments(found: Found): boolean {
    const read = this.#arguments?.read(this.#held);
    if (read === undefined) return false;
    found.append(this.#index, read.json);
    this.#held = this.#held.slice(read.taken);
    if (!read.isWhole) return false;
    this.#numWhole++;
    this.#state = 'end';
    return true;
  }

  #readEnd(): boolean {
    const { end } = this.#format;
    if (this.#held.length < end.length && end.startsWith(this.#held)) return false;
    this.#held = this.#held.slice(this.#held.startsWith(end) ? end.length : 1);
    this.#state = this.#format.opening === undefined ? 'gap' : 'list';
    return true;
  }

  /** In a list another call follows, or its end. */
  #readList(): boolean {
    const { separator = '', begin, closing = '' } = this.#format;
    const next = separator + begin;
    const isNext = this.#held.startsWith(next);
    if (!isNext && !this.#held.startsWith(closing)) {
      if (next.startsWith(this.#held)) return false;
      this.#state = 'gap';
      return true;
    }
    this.#held = this.#held.slice(isNext ? next.length : closing.length);
    this.#state = isNext ? 'name' : 'gap';
    return true;
  }

  /** White space behind a call is nobody's text. */
  #skipGap(): boolean {
    this.#held = this.#held.trimStart();
    if (this.#held === '') return false;
    this.#state = 'text';
    return true;
  }
}

/** What a text looks like to clients. */
function unmarked(text: string): string {
  return text.replaceAll(markSign, '');
}

class Found implements ParsedText {
  text = '';
  readonly calls: CallPiece[] = [];

  begin(index: number, name: string): void {
    this.calls.push({ index, name, at: this.text.length, arguments: '' });
  }

  append(index: number, text: string): void {
    if (text !== '') appendCalls(this.calls, [{ index, arguments: text }]);
  }
}

/** Puts pieces to those before them, so that there is one of each call. numUnits: of the text before that of the pieces. */
export function appendCalls(calls: CallPiece[], pieces: readonly CallPiece[], numUnits = 0): void {
  for (const piece of pieces) {
    const last = calls.at(-1);
    if (last?.index === piece.index)
      calls[calls.length - 1] = { ...last, arguments: last.arguments + piece.arguments };
    else calls.push(piece.at === undefined ? piece : { ...piece, at: piece.at + numUnits });
  }
}

/** Text and calls in the order in which an answer has them. */
export function inOrder(text: string, calls: readonly CallPiece[]): (string | CallPiece)[] {
  const items: (string | CallPiece)[] = [];
  let end = 0;
  for (const call of calls) {
    const { at = 0 } = call;
    if (at > end) items.push(text.slice(end, at));
    end = at;
    items.push(call);
  }
  if (end < text.length) items.push(text.slice(end));
  return items;
}
