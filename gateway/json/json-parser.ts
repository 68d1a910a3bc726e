/**
 * A JSON parser (RFC 8259) without loss: an integer that a JavaScript number would round becomes a bigint. It is stricter
 * than JSON.parse where a body could be ambiguous or expensive: no member twice, and bounds on depth and on the number of
 * objects and members. A megabyte takes some tens of milliseconds at most, whatever it contains.
 */
import { shown } from '../errors/api-error.ts';

/** Bounds of a body in any encoding. */
export const bodyBounds = {
  /** How deep brackets may nest. Parsers recurse, and no request needs more. */
  depth: 64,
  /** Objects and members together: each costs a microsecond or more. 4,096 messages with parts have 24,576 of them. */
  members: 2 ** 15,
  /** Members of one object: an object with very many is slow to make and to copy, and no request needs one. */
  objectMembers: 2 ** 12,
} as const;

/** Digits of the largest 64-bit integer. A bigint of very many digits takes seconds to make. */
const maxIntegerDigits = 20;
/** Any integer with this many digits is exact as a number. */
const exactDigits = 15;

const quote = 0x22;
const comma = 0x2c;
const minus = 0x2d;
const zero = 0x30;
const colon = 0x3a;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

export class JsonFault extends Error {
  override readonly name = 'JsonFault';
}

/** Parses the text. Throws JsonFault, which says what is wrong and where. */
export function parseLosslessJson(text: string): unknown {
  return new Parser(text).all();
}

class Parser {
  readonly #text: string;
  readonly #number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
  #at = 0;
  #numMembers = 0;

  constructor(text: string) {
    this.#text = text;
  }

  all(): unknown {
    const value = this.#value(0);
    if (this.#at < this.#text.length) throw this.#expected('the end of the text');
    return value;
  }

  /** Reads a value and the white space before and after it. */
  #value(depth: number): unknown {
    this.#skipSpace();
    const value = this.#bareValue(depth);
    this.#skipSpace();
    return value;
  }

  #bareValue(depth: number): unknown {
    const first = this.#text.charCodeAt(this.#at);
    if (first === quote) return this.#string();
    if (first === minus || isDigit(first)) return this.#integer() ?? this.#anyNumber();
    if (first === openBrace || first === openBracket) {
      if (depth === bodyBounds.depth)
        throw new JsonFault(`it nests deeper than ${bodyBounds.depth} brackets`);
      return first === openBrace ? this.#object(depth + 1) : this.#array(depth + 1);
    }
    if (this.#take('true')) return true;
    if (this.#take('false')) return false;
    if (this.#take('null')) return null;
    throw this.#expected('a value');
  }

  #object(depth: number): object {
    const object: Record<string, unknown> = {};
    this.#count();
    this.#at++;
    this.#skipSpace();
    if (this.#takeCode(closeBrace)) return object;
    let numMembers = 0;
    do {
      this.#count();
      if (++numMembers > bodyBounds.objectMembers)
        throw new JsonFault(`an object in it has more than ${bodyBounds.objectMembers} members`);
      this.#skipSpace();
      if (this.#text.charCodeAt(this.#at) !== quote) throw this.#expected('the name of a member');
      const name = this.#string();
      this.#skipSpace();
      if (!this.#takeCode(colon)) throw this.#expected('a colon');
      if (Object.hasOwn(object, name))
        throw new JsonFault(`the member ${JSON.stringify(shown(name))} appears twice`);
      const value = this.#value(depth);
      // A plain assignment would set the object's prototype.
      if (name === '__proto__') define(object, name, value);
      else object[name] = value;
    } while (this.#takeCode(comma));
    if (!this.#takeCode(closeBrace)) throw this.#expected('a comma or the end of the object');
    return object;
  }

  #count(): void {
    if (++this.#numMembers > bodyBounds.members)
      throw new JsonFault(`it has more than ${bodyBounds.members} objects and members`);
  }

  #array(depth: number): unknown[] {
    const array: unknown[] = [];
    this.#at++;
    this.#skipSpace();
    if (this.#takeCode(closeBracket)) return array;
    do array.push(this.#value(depth));
    while (this.#takeCode(comma));
    if (!this.#takeCode(closeBracket)) throw this.#expected('a comma or the end of the array');
    return array;
  }

  /** Reads a string. JSON.parse also copies it: a slice would keep the whole body in memory. */
  #string(): string {
    const start = this.#at;
    let end = this.#text.indexOf('"', start + 1);
    while (end !== -1 && this.#isEscaped(end)) end = this.#text.indexOf('"', end + 1);
    if (end === -1) throw new JsonFault(`the string at position ${start} has no end`);
    this.#at = end + 1;
    try {
      return JSON.parse(this.#text.slice(start, end + 1)) as string;
    } catch {
      throw new JsonFault(`the string at position ${start} has a control character or an unknown escape`);
    }
  }

  #isEscaped(at: number): boolean {
    let first = at;
    while (this.#text.charCodeAt(first - 1) === backslash) first--;
    return (at - first) % 2 === 1;
  }

  /** Reads an integer of few digits, which nearly all numbers are; undefined for any other number. */
  #integer(): number | undefined {
    const isNegative = this.#text.charCodeAt(this.#at) === minus;
    const start = isNegative ? this.#at + 1 : this.#at;
    let value = 0;
    let at = start;
    for (let digit = this.#text.charCodeAt(at); isDigit(digit); digit = this.#text.charCodeAt(++at)) {
      if (at - start === exactDigits) return undefined;
      value = value * 10 + (digit - zero);
    }
    const hasLeadingZero = at - start > 1 && this.#text.charCodeAt(start) === zero;
    if (at === start || hasLeadingZero || '.eE'.includes(this.#text.charAt(at) || ' ')) return undefined;
    this.#at = at;
    return isNegative ? -value : value;
  }

  #anyNumber(): number | bigint {
    this.#number.lastIndex = this.#at;
    const text = this.#number.exec(this.#text)?.[0];
    if (text === undefined) throw this.#expected('a digit');
    this.#at += text.length;
    const value = Number(text);
    const isExact =
      Number.isSafeInteger(value) || text.length > maxIntegerDigits + 1 || !/^-?\d+$/.test(text);
    return isExact ? value : BigInt(text);
  }

  #take(word: string): boolean {
    if (!this.#text.startsWith(word, this.#at)) return false;
    this.#at += word.length;
    return true;
  }

  #takeCode(code: number): boolean {
    if (this.#text.charCodeAt(this.#at) !== code) return false;
    this.#at++;
    return true;
  }

  #skipSpace(): void {
    for (let code = this.#text.charCodeAt(this.#at); isSpace(code); code = this.#text.charCodeAt(this.#at))
      this.#at++;
  }

  /** Shows at most one character of the body, which is private. */
  #expected(what: string): JsonFault {
    const char = this.#text.charAt(this.#at);
    const found = char === '' ? 'the end of the text' : JSON.stringify(char);
    return new JsonFault(`expected ${what} at position ${this.#at}, found ${found}`);
  }
}

function isDigit(code: number): boolean {
  return code >= zero && code <= zero + 9;
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

function define(object: object, name: string, value: unknown): void {
  Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}
