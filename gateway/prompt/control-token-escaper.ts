/**
 * Keeps user text from forging control tokens. Before a template renders, each literal of a control token in a message is
 * replaced by a placeholder with a secret. So the control tokens in the rendered prompt were written by the template.
 * Afterwards the placeholders become the literals again, as plain text.
 *
 * A placeholder consists of digits between two private-use characters, which trimming, changes of case and JSON leave as they
 * are.
 */
import { randomBytes } from 'node:crypto';
import type { LiteralFinder } from '../tokenizer/literals.ts';

const open = '\uE000';
const close = '\uE001';
const nonceBytes = 16;

export class ControlTokenEscaper {
  readonly #literals: readonly string[];
  readonly #finder: LiteralFinder<number>;
  readonly #nonce: string;
  readonly #placeholders: RegExp;
  /** A string that is not a placeholder and occurs in none of the texts. It marks a place that can be found again. */
  readonly mark: string;

  /**
   * finder: finds the literals and gives their indices. texts: all texts in which literals will be hidden. The nonce is chosen
   * so that none of them contains it.
   */
  constructor(literals: readonly string[], finder: LiteralFinder<number>, texts: readonly string[]) {
    let nonce: string;
    do nonce = BigInt(`0x${randomBytes(nonceBytes).toString('hex')}`).toString();
    while (texts.some((text) => text.includes(nonce)));
    this.mark = open + nonce + close;
    this.#literals = literals;
    this.#finder = finder;
    this.#nonce = nonce;
    this.#placeholders = new RegExp(`${open}${nonce}\\.(\\d+)${close}`, 'g');
  }

  hide(text: string): string {
    let hidden = '';
    for (const { text: part, match } of this.#finder.split(text))
      hidden += match === undefined ? part : `${open}${this.#nonce}.${match}${close}`;
    return hidden;
  }

  reveal(text: string): string {
    return text.replace(this.#placeholders, (_, index: string) => this.#literals[Number(index)] ?? '');
  }
}
