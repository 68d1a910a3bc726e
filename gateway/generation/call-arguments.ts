import type { ParameterFormat, ToolCallFormat } from '../prompt/tool-call-format.ts';
import { begunUnits } from './stop-matcher.ts';

/** Reads the arguments of one tool call from text that comes in pieces, and gives them as pieces of JSON. */

/** How a value is written: as text, as JSON, or (a function) as JSON if the function accepts the parsed value, else as text. */
export type ValueKind = 'text' | 'json' | ((value: unknown) => boolean);

/** How a parameter of a tool is written, by the names of both. */
export type KindOf = (tool: string, parameter: string) => ValueKind;

interface ReadArguments {
  /** The next piece of the arguments' JSON. */
  readonly json: string;
  /** The number of UTF-16 units of the text that have been read and need not come again. */
  readonly taken: number;
  /** Whether the arguments are complete. The rest of the text then begins with the end of the call. */
  readonly isWhole: boolean;
}

export interface ArgumentsReader {
  /** text: the units that the last call did not take, followed by the new text. */
  read(text: string): ReadArguments;
}

export function argumentsReader(format: ToolCallFormat, tool: string, kindOf: KindOf): ArgumentsReader {
  const { parameter, end } = format;
  if (parameter === undefined) return new JsonArguments(end === '');
  return new WrittenArguments(parameter, end, (name) => kindOf(tool, name));
}

/**
 * Arguments in JSON. They end before the bracket that closes the surrounding object, or, where they stand alone, with their own
 * last bracket.
 */
class JsonArguments implements ArgumentsReader {
  readonly #isAlone: boolean;
  #depth = 0;
  #isInString = false;
  #isEscaped = false;

  constructor(isAlone: boolean) {
    this.#isAlone = isAlone;
  }

  read(text: string): ReadArguments {
    for (let at = 0; at < text.length; at++) {
      if (!this.#closes(text[at] as string)) continue;
      const taken = this.#isAlone ? at + 1 : at;
      return { json: text.slice(0, taken), taken, isWhole: true };
    }
    return { json: text, taken: text.length, isWhole: false };
  }

  #closes(char: string): boolean {
    if (this.#isInString) {
      const wasEscaped = this.#isEscaped;
      this.#isEscaped = char === '\\' && !wasEscaped;
      if (char === '"' && !wasEscaped) this.#isInString = false;
      return false;
    }
    if (char === '"') this.#isInString = true;
    else if (char === '{' || char === '[') this.#depth++;
    else if (char === '}' || char === ']') {
      if (this.#depth === 0) return true;
      this.#depth--;
      return this.#isAlone && this.#depth === 0;
    }
    return false;
  }
}

/**
 * Arguments that are written one by one, each with its name. The value of a text parameter is given as it comes, without the
 * units that may begin its end mark.
 */
class WrittenArguments implements ArgumentsReader {
  readonly #format: ParameterFormat;
  readonly #end: string;
  readonly #kindOf: (name: string) => ValueKind;
  #json = '';
  #left = '';
  /** The beginning of a name, or of a value that is not given before it is whole. What is here is not searched again. */
  #begun = '';
  #hasAny = false;
  #state: 'between' | 'name' | 'value' = 'between';
  #kind: ValueKind = 'json';

  /** end: the mark that ends the call. */
  constructor(format: ParameterFormat, end: string, kindOf: (name: string) => ValueKind) {
    this.#format = format;
    this.#end = end;
    this.#kindOf = kindOf;
  }

  read(text: string): ReadArguments {
    this.#json = '';
    this.#left = text;
    while (!this.#isAtEnd && this.#step()) {
      // Each step takes something from #left.
    }
    const isWhole = this.#isAtEnd;
    if (isWhole) this.#json += this.#hasAny ? '}' : '{}';
    return { json: this.#json, taken: text.length - this.#left.length, isWhole };
  }

  get #isAtEnd(): boolean {
    return this.#state === 'between' && this.#left.startsWith(this.#end);
  }

  /** Returns whether it took something. */
  #step(): boolean {
    if (this.#state === 'between') return this.#skipBegin();
    return this.#state === 'name' ? this.#readName() : this.#readValue();
  }

  /** Skips one unit if it begins neither a parameter nor the end. The grammar allows no call with such text. */
  #skipBegin(): boolean {
    const { begin } = this.#format;
    if (this.#left.startsWith(begin)) {
      this.#left = this.#left.slice(begin.length);
      this.#state = 'name';
      return true;
    }
    if (begin.startsWith(this.#left) || this.#end.startsWith(this.#left)) return false;
    this.#left = this.#left.slice(1);
    return true;
  }

  #readName(): boolean {
    const name = this.#readUntil(this.#format.between);
    if (name === undefined) return false;
    this.#kind = this.#kindOf(name);
    this.#json += `${this.#hasAny ? ', ' : '{'}${JSON.stringify(name)}: ${this.#kind === 'text' ? '"' : ''}`;
    this.#hasAny = true;
    this.#state = 'value';
    return true;
  }

  #readValue(): boolean {
    const { end } = this.#format;
    const value = this.#readUntil(end);
    if (value !== undefined) {
      this.#tell(value, true);
      this.#state = 'between';
      return true;
    }
    if (typeof this.#kind === 'function') return false;
    this.#tell(this.#begun, false);
    this.#begun = '';
    return false;
  }

  /** The text in front of the mark; undefined if the mark has not come yet. */
  #readUntil(mark: string): string | undefined {
    const at = this.#left.indexOf(mark);
    if (at < 0) {
      const units = this.#left.length - heldUnits(this.#left, mark);
      this.#begun += this.#left.slice(0, units);
      this.#left = this.#left.slice(units);
      return undefined;
    }
    const text = this.#begun + this.#left.slice(0, at);
    this.#begun = '';
    this.#left = this.#left.slice(at + mark.length);
    return text;
  }

  #tell(text: string, isLast: boolean): void {
    if (this.#kind === 'json') this.#json += text;
    else if (this.#kind === 'text') this.#json += JSON.stringify(text).slice(1, -1) + (isLast ? '"' : '');
    else this.#json += isJsonOf(text, this.#kind) ? text : JSON.stringify(text);
  }
}

function isJsonOf(text: string, isAllowed: (value: unknown) => boolean): boolean {
  try {
    return isAllowed(JSON.parse(text));
  } catch {
    return false;
  }
}

/**
 * The number of units at the end of `text` that may become `mark`, or 1 if the text ends with the first half of a surrogate
 * pair.
 */
function heldUnits(text: string, mark: string): number {
  return begunUnits(text, mark) || (/[\ud800-\udbff]$/.test(text) ? 1 : 0);
}
