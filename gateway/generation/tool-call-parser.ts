import type { ToolCallFormat } from '../prompt/tool-call-format.ts';
import { type ArgumentsReader, argumentsReader, type KindOf } from './call-arguments.ts';
import { type Marks, unmarked } from './control-marks.ts';
import { begunUnits } from './stop-matcher.ts';

/** How the calls of one answer are written. */
export interface CallSyntax {
  readonly format: ToolCallFormat;
  /** The control tokens that stand in the format. */
  readonly marks: Marks;
  /** How each parameter is written, for formats in which each argument stands by itself. */
  readonly kindOf: KindOf;
  /**
   * The names of the tools, if an answer is either calls or text of a required form: text of that form is not searched for
   * calls. Absent if an answer may have both.
   */
  readonly names?: readonly string[];
}

/** A new piece of a tool call. */
export interface CallPiece {
  /** The index of the call in the answer, from 0. */
  readonly index: number;
  /** In the first piece of a call only. */
  readonly name?: string;
  /** In the first piece of a call only: the number of UTF-16 units of the accompanying text that stand in front of the call. */
  readonly at?: number;
  /** JSON, or a part of it. */
  readonly arguments: string;
}

interface ParsedText {
  readonly text: string;
  /** At most one piece for each call. */
  readonly calls: readonly CallPiece[];
}

/** The longest name of a tool, as in Anthropic's API, in UTF-16 units. A longer one is text. */
export const maxToolNameUnits = 128;

type State = 'text' | 'name' | 'id' | 'arguments' | 'end' | 'list' | 'gap';

/**
 * Takes tool calls out of an answer that comes in pieces; the cuts between pieces make no difference. The answer follows the
 * grammar of tool-grammar.ts or is cut short; whatever does not have the form of a call is text. Text that may still begin a
 * call is held back, as is an incomplete name.
 */
export class ToolCallParser {
  readonly #format: ToolCallFormat;
  readonly #kindOf: KindOf;
  readonly #names: readonly string[] | undefined;
  /** Texts behind a name, one of which ends it; none is the beginning of another. */
  readonly #nameEnds: readonly string[];
  #state: State = 'text';
  /** Text that was read, but neither sent nor recognized as part of a call. */
  #held = '';
  #hasText = false;
  #index = -1;
  /** The reader of the current call's arguments. */
  #arguments: ArgumentsReader | undefined;
  /** The number of calls whose arguments are complete. */
  #numWhole = 0;

  constructor({ format, kindOf, names }: Omit<CallSyntax, 'marks'>) {
    this.#format = format;
    this.#kindOf = kindOf;
    this.#names = names;
    const { idMark, between, end, parameter } = format;
    const isOpen = between === '' && parameter !== undefined;
    this.#nameEnds = isOpen ? [parameter.begin, end] : [idMark ?? between];
  }

  get numWhole(): number {
    return this.#numWhole;
  }

  push(text: string): ParsedText {
    this.#held += text;
    const found = new Found();
    while (this.#step(found)) {
      // Each step takes something from #held or goes to the next state.
    }
    return { text: found.text, calls: found.calls };
  }

  /** Ends the answer and returns the held text that is not part of a call. A call whose name is incomplete is dropped. */
  flush(): string {
    const rest = this.#state === 'text' ? this.#held : '';
    this.#held = '';
    return unmarked(rest);
  }

  /** Returns whether there may be more to do. */
  #step(found: Found): boolean {
    switch (this.#state) {
      case 'text':
        return this.#readText(found);
      case 'name':
        return this.#readName(found);
      case 'id':
        return this.#skipId();
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

  /** What the first call behind a text begins with. */
  get #begin(): string {
    const { opening = '', begin } = this.#format;
    return opening + begin;
  }

  /** Where the held text has `begin`, if a call may begin there. */
  #placeOf(begin: string): number | undefined {
    const at = this.#held.indexOf(begin);
    return at < 0 || (!this.#mayBegin && at === 0) || (at > 0 && this.#isWhole) ? undefined : at;
  }

  /**
   * Whether calls may stand only at the beginning of the answer: the format allows one call as the whole answer, or text and
   * calls exclude each other.
   */
  get #isWhole(): boolean {
    return this.#format.separator === undefined || this.#names !== undefined;
  }

  get #mayBegin(): boolean {
    if (!this.#isWhole) return true;
    return !this.#hasText && (this.#index < 0 || this.#format.separator !== undefined);
  }

  /** The number of units at the end of the held text that may still become `begin`. */
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
    const { idMark, between } = this.#format;
    const ends = this.#nameEnds.map((end) => this.#held.indexOf(end)).filter((at) => at >= 0);
    const at = ends.length === 0 ? -1 : Math.min(...ends);
    const endUnits = Math.max(...this.#nameEnds.map((end) => end.length));
    const isTooLong = at < 0 ? this.#held.length >= maxToolNameUnits + endUnits : at > maxToolNameUnits;
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
    this.#held = this.#held.slice(at + (idMark ?? between).length);
    this.#state = idMark === undefined ? 'arguments' : 'id';
    return true;
  }

  /** Clients get ids of the gateway's. */
  #skipId(): boolean {
    const { between } = this.#format;
    const at = this.#held.indexOf(between);
    if (at < 0) {
      this.#held = this.#held.slice(this.#held.length - begunUnits(this.#held, between));
      return false;
    }
    this.#held = this.#held.slice(at + between.length);
    this.#state = 'arguments';
    return true;
  }

  /** Whether the held text, where a name should stand, may be a tool's name. Text of a required form may begin like a call. */
  get #mayBeCall(): boolean {
    if (this.#names === undefined) return true;
    const wholes = this.#names.flatMap((name) => this.#nameEnds.map((end) => name + end));
    return wholes.some((whole) => whole.startsWith(this.#held) || this.#held.startsWith(whole));
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

  /** In a list, either another call or the end of the list follows. */
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

  /** Drops the white space behind a call. */
  #skipGap(): boolean {
    this.#held = this.#held.trimStart();
    if (this.#held === '') return false;
    this.#state = 'text';
    return true;
  }
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

/**
 * Adds pieces to `calls`, joining those of the same call. numUnits: the units of text in front of the text that the pieces came
 * with.
 */
export function appendCalls(calls: CallPiece[], pieces: readonly CallPiece[], numUnits = 0): void {
  for (const piece of pieces) {
    const last = calls.at(-1);
    if (last?.index === piece.index)
      calls[calls.length - 1] = { ...last, arguments: last.arguments + piece.arguments };
    else calls.push(piece.at === undefined ? piece : { ...piece, at: piece.at + numUnits });
  }
}

/** Text and calls in the order in which they stand in the answer. */
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
