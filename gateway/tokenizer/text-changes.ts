/** What the normalizers of a Unigram tokenizer do with a text, in order. */
import { trimEnd } from './added-tokens.ts';
import { CharsmapNormalizer } from './charsmap.ts';
import { whiteSpace } from './pre-tokenizers/expressions.ts';
import type { Charsmap, TextChange } from './tables.ts';
import type { Steps } from './tokenizer.ts';

const atStart = new RegExp(`^[${whiteSpace}]+`);
const betweenWords = new RegExp(`[${whiteSpace}]+▁?`, 'g');

export class TextChanges {
  readonly #changes: readonly TextChange[];
  readonly #charsmap: CharsmapNormalizer | undefined;

  constructor(changes: readonly TextChange[], charsmap: Charsmap | undefined) {
    this.#changes = changes;
    this.#charsmap = charsmap && new CharsmapNormalizer(charsmap);
  }

  *apply(text: string): Steps<string> {
    let changed = text;
    for (const change of this.#changes) {
      if (change.kind === 'charsmap') {
        const parts: string[] = [];
        for (const part of this.#charsmap?.parts(changed) ?? []) {
          parts.push(part);
          yield;
        }
        changed = parts.join('');
      } else changed = changedBy(changed, change);
    }
    return changed;
  }
}

function changedBy(text: string, change: Exclude<TextChange, { kind: 'charsmap' }>): string {
  switch (change.kind) {
    case 'replace':
      return text.replaceAll(change.from, () => change.to);
    case 'spaces':
      return text.replace(/ {2,}/g, () => change.to);
    case 'strip':
      return stripped(text, change.left, change.right);
    default:
      return stripped(text, true, true).replace(betweenWords, ' ');
  }
}

function stripped(text: string, left: boolean, right: boolean): string {
  const begun = left ? text.replace(atStart, '') : text;
  return right ? trimEnd(begun) : begun;
}
