/**
 * How BERT's text becomes words. The rules are those of BertNormalizer and BertPreTokenizer in Hugging Face's tokenizers
 * library, character for character.
 */
import { whiteSpace } from './expressions.ts';

export interface BertRules {
  /** Whether control characters are removed. */
  readonly cleans: boolean;
  /** Whether each Chinese character is a word. */
  readonly isolatesHan: boolean;
  /** Whether text is decomposed (NFD) and loses its nonspacing marks. */
  readonly stripsAccents: boolean;
  readonly lowers: boolean;
}

/**
 * The library knows the categories of Unicode 8. To it, characters that are newer are neither controls, marks nor punctuation,
 * and do not decompose. These ranges have them, and between them only older characters that are nothing of this either.
 */
const newer =
  '\\u061d\\u07fd\\u0890-\\u08e2\\u09fd-\\u09fe\\u0a76\\u0afa-\\u0aff\\u0b55\\u0c04-\\u0c3c\\u0c77' +
  '\\u0c84\\u0d00\\u0d3b-\\u0d3c\\u0d81\\u0eba\\u0ece\\u180f-\\u1886\\u1abf-\\u1aeb\\u1b4e-\\u1b4f' +
  '\\u1b7d-\\u1b7f\\u1df6-\\u1dfb\\u2e43-\\u2e5d\\ua82c\\ua8c5\\ua8ff\\ua9bd\\u{105c9}-\\u{105e4}' +
  '\\u{10d24}-\\u{10f89}\\u{11070}-\\u{11074}\\u{110c2}-\\u{110cd}\\u{111cf}\\u{1123e}-\\u{11241}' +
  '\\u{1133b}\\u{11383}-\\u{1145e}\\u{11660}-\\u{1166c}\\u{116b9}\\u{1182f}-\\u{11fff}' +
  '\\u{12ff1}-\\u{1612f}\\u{16d68}-\\u{16f4f}\\u{16fe2}-\\u{16fe4}\\u{1cf00}-\\u{1cf46}' +
  '\\u{1e000}-\\u{1e6f5}\\u{1e944}-\\u{1e95f}';
/** Of these categories, four characters have left or changed theirs since: U+1171E, U+111C9, U+166D and U+1734. */
const controls = new RegExp(`[\\p{Cc}\\p{Cf}\\p{Co}\\p{Cs}\\ufffd](?<![\\t\\n\\r${newer}])`, 'gu');
const marks = /[\p{Mn}\u1734\u{1171e}](?<!\u{111c9})/gu;
const punctuation = '!-\\/:-@\\[-`{-~\\p{P}\\u166d\\u{111c9}';
const words = new RegExp(
  `[${whiteSpace}]+|[${punctuation}](?<![${newer}])|(?:[^${whiteSpace}${punctuation}]|[${punctuation}](?<=[${newer}]))+`,
  'uy',
);
const older = new RegExp(`[^${newer}]+`, 'gu');
const notAscii = /[\u0080-\uffff]/;
/** BERT's blocks of Chinese characters, without U+2B820 to U+2B91F, which the library leaves out. */
const han =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu;

export function normalized(text: string, { cleans, isolatesHan, stripsAccents, lowers }: BertRules): string {
  let kept = cleans ? text.replace(controls, '') : text;
  if (isolatesHan) kept = kept.replace(han, ' $& ');
  if (stripsAccents && notAscii.test(kept))
    kept = kept.replace(older, (part) => part.normalize('NFD').replace(marks, ''));
  return lowers ? lowerCase(kept) : kept;
}

/** Each character by itself: JavaScript writes a sigma at the end of a word in another way. */
export function lowerCase(text: string): string {
  return text.replaceAll('Σ', 'σ').toLowerCase();
}

const startsWithSpace = new RegExp(`^[${whiteSpace}]`);

/** Whether text that ends at a wordEnd() is white space and no word. */
export function isSpace(text: string): boolean {
  return startsWithSpace.test(text);
}

/** The end of the word or of the white space that begins at `at` in normalized text. */
export function wordEnd(text: string, at: number): number {
  words.lastIndex = at;
  words.test(text);
  return words.lastIndex;
}

/** The number of UTF-16 units after which text is cut, so that it is normalized in steps. */
const partUnits = 2048;
/** Some of the characters in front of which no word goes on, and with which no character in front of them combines. */
const wordBreak = /[\t\n\r !-/:-@[-`{-~、。，]/g;
const wordBreakOrHan = /[\t\n\r !-/:-@[-`{-~、。，\u4e00-\u9fa5]/g;

/** Parts of a text that can be normalized by themselves. */
export function* partsOf(text: string, { isolatesHan }: BertRules): Generator<string> {
  const cut = isolatesHan ? wordBreakOrHan : wordBreak;
  for (let at = 0; at < text.length; ) {
    cut.lastIndex = at + partUnits;
    const end = cut.exec(text)?.index ?? text.length;
    yield text.slice(at, end);
    at = end;
  }
}

/** The beginning of a word, whatever the rules: a letter or digit behind white space. */
const start = /(?<![^\t\n\r ])[\p{L}\p{N}]/gu;
const startOrHan = /(?<![^\t\n\r ])[\p{L}\p{N}]|[\u4e00-\u9fa5]/gu;

/** A lower bound for the number of words of a text. */
export function leastWords(text: string, { isolatesHan }: BertRules): number {
  const found = isolatesHan ? startOrHan : start;
  found.lastIndex = 0;
  let count = 0;
  while (found.test(text)) count++;
  return count;
}
