/**
 * Cuts a template into text and tokens, with the settings that chat templates are written for: trim_blocks removes a newline
 * behind a tag, and lstrip_blocks removes spaces in front of a tag at the beginning of a line. `{%-` and `-%}` remove all white
 * space on their side, `{%+` and `+%}` switch the two settings off.
 */

import { spaceClass, strip } from './text.ts';
import { JinjaError } from './values.ts';

export interface Token {
  readonly kind:
    | 'text'
    | 'name'
    | 'string'
    | 'integer'
    | 'float'
    | 'operator'
    | '{{'
    | '}}'
    | '{%'
    | '%}'
    | 'end';
  readonly text: string;
  readonly line: number;
}

const space = new RegExp(`${spaceClass}+`, 'y');
const opening = new RegExp(
  `\\{%[-+]?${spaceClass}*raw${spaceClass}*(?:-%\\}${spaceClass}*|%\\})|\\{[%{#][-+]?`,
  'g',
);
const commentEnd = new RegExp(`-#\\}${spaceClass}*|\\+#\\}|#\\}\\n?`, 'g');
const blockEnd = new RegExp(`-%\\}${spaceClass}*|\\+%\\}|%\\}\\n?`, 'y');
const outputEnd = new RegExp(`-\\}\\}${spaceClass}*|\\}\\}`, 'y');
const rawEnd = new RegExp(
  `\\{%([-+]?)${spaceClass}*endraw${spaceClass}*(?:-%\\}${spaceClass}*|\\+%\\}|%\\}\\n?)`,
  'g',
);
const onlySpace = new RegExp(`^${spaceClass}+$`);
const float = /\d(?:_?\d)*(?:(?:\.\d(?:_?\d)*)?e[+-]?\d(?:_?\d)*|\.\d(?:_?\d)*)/iy;
const integer = /0x(?:_?[\da-f])+|0o(?:_?[0-7])+|0b(?:_?[01])+|[1-9](?:_?\d)*|0(?:_?0)*/iy;
const name = /[\p{L}_][\p{L}\p{M}\p{N}_]*/uy;
const string = /'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"/sy;
const operator = /\/\/|\*\*|==|!=|>=|<=|[-+/*%~[\](){}=><.:|,;]/y;
/** What may stand in a tag, in the order in which it is tried. */
const lexemes = Object.entries({ float, integer, name, string, operator }) as [Token['kind'], RegExp][];
const closers: ReadonlyMap<string, string> = new Map([
  ['(', ')'],
  ['[', ']'],
  ['{', '}'],
]);

/** Throws JinjaError for a character that no token begins with, and for anything that is not closed. */
export function tokensOf(template: string): Token[] {
  return new Lexer(template).tokens();
}

class Lexer {
  readonly #source: string;
  readonly #tokens: Token[] = [];
  #at = 0;
  #line = 1;
  /** Whether the lexer is directly behind a newline or at the beginning. */
  #isLineStart = true;

  constructor(template: string) {
    this.#source = template.replace(/\r\n?/g, '\n').replace(/\n$/, '');
  }

  tokens(): Token[] {
    for (;;) {
      opening.lastIndex = this.#at;
      const found = opening.exec(this.#source);
      if (found === null) break;
      const [tag] = found;
      this.#addText(this.#source.slice(this.#at, found.index), tag[2] ?? '', tag.startsWith('{{'));
      this.#moveTo(found.index + tag.length);
      if (tag.startsWith('{#')) this.#skipComment();
      else if (tag.includes('raw')) this.#addRaw();
      else this.#addTag(tag.startsWith('{{') ? '{{' : '{%');
    }
    this.#addText(this.#source.slice(this.#at), '', true);
    this.#add('end', '');
    return this.#tokens;
  }

  /** sign: the sign in the opening of the tag behind this text, or ''. */
  #addText(text: string, sign: string, isBeforeOutput: boolean): void {
    let kept = text;
    if (sign === '-') kept = strip(text, null, 'end');
    else if (sign !== '+' && !isBeforeOutput) {
      const lineStart = text.lastIndexOf('\n') + 1;
      if ((lineStart > 0 || this.#isLineStart) && onlySpace.test(text.slice(lineStart)))
        kept = text.slice(0, lineStart);
    }
    if (kept !== '') this.#add('text', kept);
  }

  #skipComment(): void {
    commentEnd.lastIndex = this.#at;
    const end = commentEnd.exec(this.#source);
    if (end === null) throw this.#error('a comment is not closed');
    this.#moveTo(commentEnd.lastIndex);
  }

  #addRaw(): void {
    rawEnd.lastIndex = this.#at;
    const end = rawEnd.exec(this.#source);
    if (end === null) throw this.#error('{% raw %} is not closed');
    this.#addText(this.#source.slice(this.#at, end.index), end[1] ?? '', false);
    this.#moveTo(rawEnd.lastIndex);
  }

  #addTag(kind: '{{' | '{%'): void {
    this.#add(kind, kind);
    const end = kind === '{{' ? outputEnd : blockEnd;
    const open: string[] = [];
    for (;;) {
      this.#match(space);
      if (open.length === 0 && this.#match(end) !== undefined) {
        this.#add(kind === '{{' ? '}}' : '%}', '');
        return;
      }
      this.#addToken(open);
    }
  }

  /** open: the closing brackets that are expected, the innermost last. */
  #addToken(open: string[]): void {
    if (this.#at >= this.#source.length) throw this.#error('a tag is not closed');
    for (const [kind, expression] of lexemes) {
      const text = this.#match(expression);
      if (text === undefined) continue;
      if (kind === 'operator') this.#nest(text, open);
      this.#add(kind, kind === 'string' ? unescaped(text.slice(1, -1)) : text);
      return;
    }
    const character = String.fromCodePoint(this.#source.codePointAt(this.#at) as number);
    throw this.#error(`there is an unexpected ${JSON.stringify(character)}`);
  }

  /** Notes a bracket. */
  #nest(text: string, open: string[]): void {
    const closer = closers.get(text);
    if (closer !== undefined) open.push(closer);
    else if ([')', ']', '}'].includes(text) && open.pop() !== text)
      throw this.#error(`there is an unexpected "${text}"`);
  }

  /** Returns the text that the expression matches here and moves behind it. */
  #match(expression: RegExp): string | undefined {
    expression.lastIndex = this.#at;
    const text = expression.exec(this.#source)?.[0];
    if (text !== undefined) this.#moveTo(this.#at + text.length);
    return text;
  }

  #moveTo(at: number): void {
    for (let i = this.#at; i < at; i++) if (this.#source[i] === '\n') this.#line++;
    if (at > this.#at) this.#isLineStart = this.#source[at - 1] === '\n';
    this.#at = at;
  }

  #add(kind: Token['kind'], text: string): void {
    this.#tokens.push({ kind, text, line: this.#line });
  }

  #error(what: string): JinjaError {
    return new JinjaError(`${what} in line ${this.#line}`);
  }
}

/** The letter after a backslash, and what the pair stands for. */
const escapes: ReadonlyMap<string, string> = new Map([
  ['\n', ''],
  ...['\\\\', "''", '""', 'a\x07', 'b\b', 'f\f', 'n\n', 'r\r', 't\t', 'v\v'].map(
    ([letter, character]) => [letter, character] as [string, string],
  ),
]);

/** Replaces the escapes of Python's strings. An unknown escape stays as it is. */
function unescaped(text: string): string {
  return text.replace(
    /\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3})|(.))/gs,
    (all: string, x?: string, u?: string, long?: string, octal?: string, other?: string) => {
      const hex = x ?? u ?? long;
      if (hex !== undefined) return characterOf(Number.parseInt(hex, 16), all);
      if (octal !== undefined) return String.fromCodePoint(Number.parseInt(octal, 8));
      return escapes.get(other ?? '') ?? all;
    },
  );
}

function characterOf(code: number, written: string): string {
  if (code > 0x10ffff) throw new JinjaError(`${written} in a string is not a character`);
  return String.fromCodePoint(code);
}
