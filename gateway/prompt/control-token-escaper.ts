/**
 * Keeps user text from forging control tokens. Before a template renders, each literal of a control token in a message
 * becomes a placeholder with a secret in it; in the rendered prompt, what still reads as a control token was therefore
 * written by the template. Placeholders then turn back into the literals, as plain text.
 *
 * A placeholder is digits between two private-use characters: trimming, changes of case and JSON leave it as it is.
 */
import { randomBytes } from 'node:crypto';
import type { Task } from '../system/cooperative-scheduler.ts';
import { LiteralFinder } from '../tokenizer/literals.ts';

const open = '\uE000';
const close = '\uE001';
const nonceBytes = 16;

export class ControlTokenEscaper {
  readonly #literals: readonly string[];
  readonly #finder: LiteralFinder<string>;
  readonly #placeholders: RegExp;
  /** Nothing that is hidden, and in none of the texts: a place that can be found again. */
  readonly mark: string;

  /** texts: all that will be hidden in; the nonce is one that none of them contains. */
  constructor(literals: readonly string[], texts: readonly string[]) {
    let nonce: string;
    do nonce = BigInt(`0x${randomBytes(nonceBytes).toString('hex')}`).toString();
    while (texts.some((text) => text.includes(nonce)));
    this.mark = open + nonce + close;
    this.#literals = literals;
    this.#finder = new LiteralFinder(
      literals.map((literal, index) => [literal, `${open}${nonce}.${index}${close}`] as const),
    );
    this.#placeholders = new RegExp(`${open}${nonce}\\.(\\d+)${close}`, 'g');
  }

  *hide(text: string): Task<string> {
    let hidden = '';
    for (const segment of this.#finder.split(text)) {
      hidden += segment.match ?? segment.text;
      yield;
    }
    return hidden;
  }

  *reveal(text: string): Task<string> {
    let revealed = '';
    let end = 0;
    for (const placeholder of text.matchAll(this.#placeholders)) {
      revealed += text.slice(end, placeholder.index) + (this.#literals[Number(placeholder[1])] ?? '');
      end = placeholder.index + placeholder[0].length;
      yield;
    }
    return revealed + text.slice(end);
  }
}
