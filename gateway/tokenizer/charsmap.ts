/**
 * SentencePiece's compiled normalizer: a table of character sequences and the texts that replace them. It is applied as the
 * normalizer Precompiled of Hugging Face's tokenizers library applies it.
 */
import { isUtf8 } from 'node:buffer';
import { type Charsmap, TokenizerError } from './tables.ts';

const charsmapBytesMax = 2 ** 22;
/** Bounds the normalized text. The longest replacement of Unicode's NFKC has 33 bytes. */
const replacementBytesMax = 64;
const unitBytes = 4;

/** bytes: the length of the trie in bytes, as 32 bits, then the trie and the texts. Throws TokenizerError. */
export function charsmapOf(bytes: Uint8Array): Charsmap {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const trieBytes = bytes.length < unitBytes ? 0 : view.getUint32(0, true);
  const end = unitBytes + trieBytes;
  if (trieBytes === 0 || trieBytes % unitBytes !== 0 || end > bytes.length || bytes.length > charsmapBytesMax)
    throw new TokenizerError(
      `its precompiled_charsmap has ${bytes.length} bytes and says that ${trieBytes} of them are its trie; at most ${charsmapBytesMax} are read, and the trie is a multiple of ${unitBytes}`,
    );
  const units = new Uint32Array(trieBytes / unitBytes);
  for (let index = 0; index < units.length; index++)
    units[index] = view.getUint32(unitBytes * (index + 1), true);
  const texts = bytes.slice(end);
  if (!isUtf8(texts))
    throw new TokenizerError('its precompiled_charsmap has replacements that are not UTF-8');
  for (let at = 0; at < texts.length; ) {
    const zero = texts.indexOf(0, at);
    const length = (zero === -1 ? texts.length : zero) - at;
    if (length > replacementBytesMax)
      throw new TokenizerError(
        `its precompiled_charsmap has a replacement of ${length} bytes; at most ${replacementBytesMax} are supported`,
      );
    at += length + 1;
  }
  return { units, texts };
}

/** Characters of Unicode that attach to the one in front of them (Extend, ZWJ, SpacingMark), and to the one behind (Prepend). */
const attached =
  '[\\p{Gr_Ext}\\p{Mc}\\u200d\\u0e33\\u0eb3](?<![\\u102b\\u102c\\u1038\\u1062-\\u1064\\u1067-\\u106d\\u1083\\u1087-\\u108c\\u108f\\u109a-\\u109c\\u1a61\\u1a63\\u1a64\\uaa7b\\uaa7d\\u{11720}\\u{11721}])';
const prepended =
  '\\u0600-\\u0605\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u0d4e\\u{110bd}\\u{110cd}\\u{111c2}\\u{111c3}\\u{1193f}\\u{11941}\\u{11a3a}\\u{11a84}-\\u{11a89}\\u{11d46}\\u{11f02}';
const control =
  '\\p{Cc}\\p{Zl}\\p{Zp}\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff\\ufff0-\\ufffb';
/**
 * Graphemes of several characters. Only those of less than 6 bytes count, so what longer ones are made of (Hangul syllables,
 * pairs of flags, emoji) is left out.
 */
const grapheme = `\\r\\n|(?<![${prepended}])[${prepended}]{1,2}[^${control}${prepended}](?:${attached})*|[^${control}](?:${attached})+`;
const graphemeOrAny = new RegExp(`${grapheme}|[^]`, 'gu');
const graphemeOrOther = new RegExp(`${grapheme}|[^ -~]`, 'gu');
/** Two of these characters next to each other are never of one grapheme. */
const apart =
  ' -~\\u00c0-\\u02af\\u0391-\\u03c9\\u0400-\\u0481\\u3041-\\u3096\\u30a1-\\u30fa\\u4e00-\\u9fa5\\uac00-\\ud7a3';
const breaks = new RegExp(`(?<=[${apart}])[${apart}]`, 'gu');
/** The number of UTF-16 units after which text is cut, so that it is normalized in steps. */
const partUnits = 2048;
/** Longer graphemes are replaced character by character. */
const graphemeBytesMax = 5;
const noLabel = 0x8000_00ff;
const valueMask = 0x7fff_ffff;

export class CharsmapNormalizer {
  readonly #units: Uint32Array;
  readonly #texts: Buffer;
  readonly #characters: RegExp;
  readonly #bytes = Buffer.alloc(16);
  /** What becomes of characters of the basic plane, filled in as they are looked up. */
  readonly #ofUnit: (string | undefined)[] = new Array(0x1_0000);

  constructor({ units, texts }: Charsmap) {
    this.#units = units;
    this.#texts = Buffer.from(texts.buffer, texts.byteOffset, texts.length);
    const ascii = Array.from({ length: 0x5f }, (_, index) => String.fromCharCode(0x20 + index));
    const keepsAscii = ascii.every((character) => this.#replacementOf(character) === undefined);
    this.#characters = keepsAscii ? graphemeOrOther : graphemeOrAny;
  }

  /** The normalized parts of a text, in order. */
  *parts(text: string): Generator<string> {
    for (let at = 0; at < text.length; ) {
      breaks.lastIndex = at + partUnits;
      const end = breaks.exec(text)?.index ?? text.length;
      yield text.slice(at, end).replace(this.#characters, (found) => this.#replaced(found));
      at = end;
    }
  }

  #replaced(found: string): string {
    if (found.length > 1) return this.#replacedWhole(found);
    const unit = found.charCodeAt(0);
    const known = this.#ofUnit[unit];
    if (known !== undefined) return known;
    const replaced = this.#replacementOf(found) ?? found;
    this.#ofUnit[unit] = replaced;
    return replaced;
  }

  #replacedWhole(found: string): string {
    if (found.length <= graphemeBytesMax && Buffer.byteLength(found) <= graphemeBytesMax) {
      const whole = this.#replacementOf(found);
      if (whole !== undefined) return whole;
    }
    let out = '';
    for (const character of found) out += this.#replacementOf(character) ?? character;
    return out;
  }

  /** The replacement of the shortest sequence that the text begins with, whatever follows in the text. */
  #replacementOf(text: string): string | undefined {
    const units = this.#units;
    const length = this.#bytes.write(text);
    let at = offsetOf(units[0] as number);
    for (let i = 0; i < length; i++) {
      const byte = this.#bytes[i] as number;
      if (byte === 0) return undefined;
      at ^= byte;
      const unit = units[at];
      if (unit === undefined || (unit & noLabel) >>> 0 !== byte) return undefined;
      at ^= offsetOf(unit);
      if ((unit >>> 8) & 1) return this.#textAt((units[at] ?? 0) & valueMask);
    }
    return undefined;
  }

  #textAt(start: number): string {
    const end = this.#texts.indexOf(0, start);
    return this.#texts.toString('utf8', start, end === -1 ? undefined : end);
  }
}

function offsetOf(unit: number): number {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}
