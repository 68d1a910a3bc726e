/**
 * Reads JSON from the bytes of a file value by value, without making a million strings and objects. What it reads is checked as
 * strictly as by JSON.parse (RFC 8259); for what it skips it only finds the end.
 */
import { TokenizerError } from '../tables.ts';

/** The bytes are not JSON. JSON.parse then makes the message. */
export class JsonFault extends Error {
  override readonly name = 'JsonFault';
}

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;
/** The letter behind a backslash and the byte that the pair stands for. \u is handled separately. */
const escapes: ReadonlyMap<number, number> = new Map(
  ['""', '\\\\', '//', 'b\b', 'f\f', 'n\n', 'r\r', 't\t'].map((pair) => [
    pair.charCodeAt(0),
    pair.charCodeAt(1),
  ]),
);

/** The value of each hexadecimal digit, by its byte. */
const notHex = 0xff;
const hexDigits = new Uint8Array(256).fill(notHex);
for (const digit of '0123456789abcdefABCDEF') hexDigits[digit.charCodeAt(0)] = Number.parseInt(digit, 16);

/** A string of the JSON: UTF-8 from start to end of `bytes`. It is valid until the next string is read. */
export interface JsonText {
  bytes: Uint8Array;
  start: number;
  end: number;
}

export class JsonBytes {
  readonly bytes: Buffer;
  /** Holds the last string that had escapes. */
  #scratch = Buffer.alloc(1024);
  readonly #text: JsonText;
  at: number;

  /** bytes: valid UTF-8. at: where reading begins. */
  constructor(bytes: Buffer, at = 0) {
    this.bytes = bytes;
    this.at = at;
    this.#text = { bytes, start: 0, end: 0 };
  }

  /** Skips white space and returns the next byte without taking it; undefined at the end. */
  peek(): number | undefined {
    const bytes = this.bytes;
    let at = this.at;
    let byte = bytes[at];
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = bytes[++at];
    this.at = at;
    return byte;
  }

  get startsObject(): boolean {
    return this.peek() === openBrace;
  }

  get startsArray(): boolean {
    return this.peek() === openBracket;
  }

  get startsString(): boolean {
    return this.peek() === quote;
  }

  /** Reads an object. onMember is called where the value of a key begins, and must read or skip that value. */
  object(onMember: (key: JsonText) => void): void {
    this.#require(openBrace);
    if (this.peek() === closeBrace) {
      this.at++;
      return;
    }
    do {
      const key = this.string();
      this.#require(colon);
      onMember(key);
    } while (!this.#endsAt(closeBrace));
  }

  /** Reads an array. onElement is called where an element begins, and must read or skip it. */
  array(onElement: () => void): void {
    this.#require(openBracket);
    if (this.peek() === closeBracket) {
      this.at++;
      return;
    }
    do onElement();
    while (!this.#endsAt(closeBracket));
  }

  /** Reads a string. Throws TokenizerError for half of a surrogate pair, which no token can have. */
  string(): JsonText {
    this.#require(quote);
    const bytes = this.bytes;
    const start = this.at;
    for (let at = start; ; at++) {
      const byte = bytes[at] as number;
      if (byte === quote) {
        this.at = at + 1;
        return this.#is(bytes, start, at);
      }
      if (byte === backslash) return this.#escaped(start, at);
      if (!(byte >= 0x20)) throw new JsonFault();
    }
  }

  /** Reads a number from 0 to 9,999,999 in plain digits. Returns -1 for any other value, which is then still to be read. */
  smallNumber(): number {
    let byte = this.peek();
    const start = this.at;
    const bytes = this.bytes;
    let at = start;
    let value = 0;
    while (byte !== undefined && byte >= 0x30 && byte <= 0x39 && at - start < 7) {
      value = value * 10 + byte - 0x30;
      byte = bytes[++at];
    }
    if (at === start || !endsScalar(byte) || (bytes[start] === 0x30 && at - start > 1)) return -1;
    this.at = at;
    return value;
  }

  /** Reads the next value with JSON.parse. Throws JsonFault. */
  value(): unknown {
    this.peek();
    const start = this.at;
    this.skip();
    try {
      return JSON.parse(this.bytes.toString('utf8', start, this.at));
    } catch {
      throw new JsonFault();
    }
  }

  /** Skips the next value. Throws JsonFault if there is none. */
  skip(): void {
    const first = this.peek();
    const bytes = this.bytes;
    let at = this.at;
    if (first === quote) at = this.#endOfString(at) + 1;
    else if (first === openBrace || first === openBracket) at = this.#endOfBrackets(at) + 1;
    else while (!endsScalar(bytes[at])) at++;
    if (at === this.at) throw new JsonFault();
    this.at = at;
  }

  #endOfBrackets(start: number): number {
    const bytes = this.bytes;
    let depth = 0;
    for (let at = start; ; at++) {
      const byte = bytes[at];
      if (byte === quote) at = this.#endOfString(at);
      else if (byte === openBrace || byte === openBracket) depth++;
      else if (byte === closeBrace || byte === closeBracket) depth--;
      else if (byte === undefined) throw new JsonFault();
      if (depth === 0) return at;
    }
  }

  #endOfString(start: number): number {
    const bytes = this.bytes;
    for (let at = start + 1; ; at++) {
      const byte = bytes[at];
      if (byte === quote) return at;
      if (byte === backslash) at++;
      else if (byte === undefined) throw new JsonFault();
    }
  }

  /** Returns true if the object or array ends here, and false if another entry follows. */
  #endsAt(end: number): boolean {
    const byte = this.peek();
    if (byte !== end && byte !== comma) throw new JsonFault();
    this.at++;
    return byte === end;
  }

  #require(byte: number): void {
    if (this.peek() !== byte) throw new JsonFault();
    this.at++;
  }

  #is(bytes: Uint8Array, start: number, end: number): JsonText {
    const text = this.#text;
    text.bytes = bytes;
    text.start = start;
    text.end = end;
    return text;
  }

  /** start: behind the opening quote. at: the place of the first backslash. */
  #escaped(start: number, at: number): JsonText {
    const bytes = this.bytes;
    // A decoded escape is never longer than the escape.
    const mostBytes = this.#endOfString(start - 1) - start;
    if (mostBytes > this.#scratch.length) this.#scratch = Buffer.alloc(mostBytes * 2);
    const scratch = this.#scratch;
    let length = at - start;
    for (let i = 0; i < length; i++) scratch[i] = bytes[start + i] as number;
    for (;;) {
      const byte = bytes[at++] as number;
      if (byte === quote) break;
      if (!(byte >= 0x20)) throw new JsonFault();
      if (byte !== backslash) {
        scratch[length++] = byte;
        continue;
      }
      const letter = bytes[at++] as number;
      if (letter === 0x75) {
        let code = this.#hex(at);
        at += 4;
        if (code >= 0xd800 && code <= 0xdfff) {
          const isPair = code <= 0xdbff && bytes[at] === backslash && bytes[at + 1] === 0x75;
          const low = isPair ? this.#hex(at + 2) : 0;
          if (low < 0xdc00 || low > 0xdfff)
            throw new TokenizerError(
              `its tokenizer.json has half of a surrogate pair at byte ${at - 6}, which is not a character`,
            );
          code = 0x1_0000 + (code - 0xd800) * 0x400 + low - 0xdc00;
          at += 6;
        }
        length = writeUtf8(code, scratch, length);
      } else {
        const escaped = escapes.get(letter);
        if (escaped === undefined) throw new JsonFault();
        scratch[length++] = escaped;
      }
    }
    this.at = at;
    return this.#is(scratch, 0, length);
  }

  #hex(at: number): number {
    let code = 0;
    for (let i = at; i < at + 4; i++) {
      const digit = hexDigits[this.bytes[i] as number] ?? notHex;
      if (digit === notHex) throw new JsonFault();
      code = code * 16 + digit;
    }
    return code;
  }
}

/** Returns the end of the character in `target`. */
function writeUtf8(code: number, target: Uint8Array, start: number): number {
  let at = start;
  if (code < 0x80) target[at++] = code;
  else {
    if (code < 0x800) target[at++] = 0xc0 | (code >> 6);
    else {
      if (code < 0x1_0000) target[at++] = 0xe0 | (code >> 12);
      else {
        target[at++] = 0xf0 | (code >> 18);
        target[at++] = 0x80 | ((code >> 12) & 0x3f);
      }
      target[at++] = 0x80 | ((code >> 6) & 0x3f);
    }
    target[at++] = 0x80 | (code & 0x3f);
  }
  return at;
}

function endsScalar(byte: number | undefined): boolean {
  return byte === undefined || byte <= 0x20 || byte === comma || byte === closeBracket || byte === closeBrace;
}
