/**
 * Keeps user text from forging control tokens. Before a template renders, each literal of a control token in a message
 * becomes a placeholder with a secret in it; in the rendered prompt, what still reads as a control token was therefore
 * written by the template. Placeholders then turn back into the literals, as plain text.
 *
 * A placeholder is digits between two private-use characters: trimming, changes of case and JSON leave it as it is.
 */
import { randomBytes } from 'node:crypto';
import { LiteralFinder } from '../tokenizer/literals.ts';

const open = '\uE000';
const close = '\uE001';
const nonceBytes = 16;

export class HiddenLiterals {
  readonly #literals: readonly string[];
  readonly #finder: LiteralFinder<string>;
  readonly #placeholders: RegExp;

  /** texts: all that will be hidden in; the nonce is one that none of them contains. */
  constructor(literals: readonly string[], texts: readonly string[]) {
    let nonce: string;
    do nonce = BigInt(`0x${randomBytes(nonceBytes).toString('hex')}`).toString();
    while (texts.some((text) => text.includes(nonce)));
    this.#literals = literals;
    this.#finder = new LiteralFinder(
      literals.map((literal, index) => [literal, `${open}${nonce}.${index}${close}`] as const),
    );
    this.#placeholders = new RegExp(`${open}${nonce}\\.(\\d+)${close}`, 'g');
  }

  hide(text: string): string {
    let hidden = '';
    for (const segment of this.#finder.split(text)) hidden += segment.match ?? segment.text;
    return hidden;
  }

  reveal(text: string): string {
    return text.replace(this.#placeholders, (_, index: string) => this.#literals[Number(index)] ?? '');
  }
}
