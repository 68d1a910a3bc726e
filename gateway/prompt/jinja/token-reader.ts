import type { Token } from './lexer.ts';
import { JinjaError } from './values.ts';

/** Reads tokens one after another. What it does not expect is an error with the line. */
export class TokenReader {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  peek(ahead = 0): Token {
    return this.#tokens[Math.min(this.#at + ahead, this.#tokens.length - 1)] as Token;
  }

  next(): Token {
    const token = this.peek();
    this.#at++;
    return token;
  }

  isNext(operator: string, ahead = 0): boolean {
    return this.#is('operator', operator, ahead);
  }

  isNextWord(word: string, ahead = 0): boolean {
    return this.#is('name', word, ahead);
  }

  skip(operator: string): boolean {
    const isThere = this.isNext(operator);
    if (isThere) this.#at++;
    return isThere;
  }

  skipWord(word: string): boolean {
    const isThere = this.isNextWord(word);
    if (isThere) this.#at++;
    return isThere;
  }

  expect(operator: string): void {
    if (!this.skip(operator)) throw this.unexpected();
  }

  expectName(): string {
    return this.expectKind('name').text;
  }

  expectKind(kind: Token['kind']): Token {
    const token = this.next();
    if (token.kind !== kind) throw this.unexpected(token);
    return token;
  }

  unexpected({ kind, text, line } = this.peek()): JinjaError {
    if (kind === 'end') return new JinjaError(`the template ends too early, in line ${line}`);
    const shown = kind === '}}' || kind === '%}' ? kind : text;
    return new JinjaError(`there is an unexpected ${JSON.stringify(shown)} in line ${line}`);
  }

  error(what: string): JinjaError {
    return new JinjaError(`${what}, in line ${this.peek().line}`);
  }

  #is(kind: Token['kind'], text: string, ahead: number): boolean {
    const token = this.peek(ahead);
    return token.kind === kind && token.text === text;
  }
}
