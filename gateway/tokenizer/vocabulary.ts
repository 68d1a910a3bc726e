/** The tokens of a file: what each stands for, which are control tokens, and an index by which text finds the others. */
import {
  bytesAt,
  lengthAt,
  newIndexSlots,
  type PackedTexts,
  stringAt,
  TextIndex,
  TextPacker,
} from './packed-texts.ts';
import { spaceMark, TokenizerError } from './tables.ts';

/**
 * How a file writes tokens: as bytes in the byte alphabet; as text with a mark for each space; or as pieces of words, either with
 * ## in front of those that continue a word, or with the mark for a space in front of those that begin one.
 */
type Notation = 'byte-level' | 'sentencepiece' | 'hashes' | 'phantom-spaces';

export const roles = {
  /** Made by merging. */
  ordinary: 0,
  /** Has a meaning beyond text. */
  control: 1,
  /** Found in text by its literal, and stands for that literal. */
  literal: 2,
  /** Found in text by its literal, and also made by merging. */
  literalAndOrdinary: 3,
  /** Stands for one byte and is written like <0x0A>. */
  byte: 4,
} as const;

export interface Vocabulary {
  readonly texts: PackedTexts;
  readonly maxTokenBytes: number;
  readonly isControl: Uint8Array;
  readonly index: Int32Array;
  readonly byteIds: Int32Array;
}

const numBytes = 256;
const mark = Buffer.from(spaceMark);
const hashes = Buffer.from('##');
const space = 0x20;

/** source: the tokens as the file writes them. role: the role of each. Throws TokenizerError if two tokens are written alike. */
export function vocabularyOf(source: PackedTexts, role: Uint8Array, notation: Notation): Vocabulary {
  const numTokens = role.length;
  const isControl = new Uint8Array(numTokens);
  const isForeign = new Uint8Array(numTokens);
  const packer = new TextPacker(numTokens, source.bytes.length);
  for (let id = 0; id < numTokens; id++) {
    if (role[id] === roles.control) isControl[id] = 1;
    const start = source.starts[id] as number;
    const end = source.starts[id + 1] as number;
    // A piece of a word may get a space in front.
    const { bytes, at } = packer.begin(end - start + 1);
    packer.end(writeText(source, start, end, bytes, at, role[id] as number, notation, isForeign, id));
  }
  const texts = packer.finish();
  const slots = newIndexSlots(numTokens);
  const index = new TextIndex(texts, slots);
  // Tokens made by merging are added first. A literal with the same text is found by AddedTokens anyway.
  const add = (id: number): void => {
    const other = lengthAt(texts, id) === 0 ? -1 : index.add(id);
    if (other !== -1) requireDifferent(source, other, id);
  };
  for (let id = 0; id < numTokens; id++) {
    const isMade = role[id] === roles.ordinary || role[id] === roles.literalAndOrdinary;
    if (isMade && isForeign[id] === 0) add(id);
  }
  requireDifferentLiterals(source, role, index);
  if (notation === 'byte-level')
    for (let id = 0; id < numTokens; id++) if (role[id] === roles.literal) add(id);
  const byteIds = new Int32Array(numBytes).fill(-1);
  if (notation === 'byte-level') {
    for (let byte = 0; byte < numBytes; byte++) byteIds[byte] = index.find(Uint8Array.of(byte), 0, 1);
  } else {
    for (let id = 0; id < numTokens; id++)
      if (role[id] === roles.byte) byteIds[texts.bytes[texts.starts[id] as number] as number] = id;
  }
  let maxTokenBytes = 1;
  for (let id = 0; id < numTokens; id++) maxTokenBytes = Math.max(maxTokenBytes, lengthAt(texts, id));
  return { texts, maxTokenBytes, isControl, index: slots, byteIds };
}

/** For each id: 1 if text can become this token. */
export function foundTokens({ index, isControl }: Pick<Vocabulary, 'index' | 'isControl'>): Uint8Array {
  const isFound = new Uint8Array(isControl.length);
  for (let slot = 0; slot < index.length; slot++) {
    const id = index[slot] as number;
    if (id >= 0) isFound[id] = 1;
  }
  return isFound;
}

/** The byte of a token that is written like <0x0A>, or -1. */
export function byteOfToken(source: PackedTexts, id: number): number {
  if (lengthAt(source, id) !== 6) return -1;
  const found = /^<0x([0-9A-F]{2})>$/.exec(stringAt(source, id));
  return found === null ? -1 : Number.parseInt(found[1] as string, 16);
}

/** Writes the text of a token to `target` and returns its number of bytes. */
function writeText(
  source: PackedTexts,
  start: number,
  end: number,
  target: Uint8Array,
  at: number,
  role: number,
  notation: Notation,
  isForeign: Uint8Array,
  id: number,
): number {
  const { bytes } = source;
  if (role === roles.byte) {
    target[at] = byteOfToken(source, id);
    return 1;
  }
  if (notation === 'byte-level' && role === roles.ordinary) {
    const length = decodeAlphabet(bytes, start, end, target, at);
    if (length >= 0) return length;
    // The token cannot be made by merging, as with padding tokens.
    isForeign[id] = 1;
  }
  if (notation === 'byte-level' || role === roles.control) {
    target.set(bytes.subarray(start, end), at);
    return end - start;
  }
  if (notation !== 'sentencepiece') {
    const prefix = notation === 'hashes' ? hashes : mark;
    const isMarked = role !== roles.literal && isAt(prefix, bytes, start, end);
    const isFirst = role === roles.literal || isMarked === (notation === 'phantom-spaces');
    const rest = bytes.subarray(isMarked ? start + prefix.length : start, end);
    // A word has no space, so no piece can continue one with a space.
    if (!isFirst && rest[0] === space) isForeign[id] = 1;
    if (isFirst) target[at] = space;
    target.set(rest, isFirst ? at + 1 : at);
    return isFirst ? rest.length + 1 : rest.length;
  }
  let length = 0;
  for (let i = start; i < end; i++) {
    const isMark = isAt(mark, bytes, i, end);
    target[at + length++] = isMark ? space : (bytes[i] as number);
    if (isMark) i += mark.length - 1;
  }
  return length;
}

function isAt(text: Uint8Array, bytes: Uint8Array, start: number, end: number): boolean {
  if (start + text.length > end) return false;
  for (let i = 0; i < text.length; i++) if (bytes[start + i] !== text[i]) return false;
  return true;
}

function requireDifferentLiterals(source: PackedTexts, role: Uint8Array, index: TextIndex): void {
  const seen = new Map<string, number>();
  for (let id = 0; id < role.length; id++) {
    if ((role[id] !== roles.control && role[id] !== roles.literal) || lengthAt(source, id) === 0) continue;
    const text = stringAt(source, id);
    const bytes = bytesAt(source, id);
    const other = seen.get(text) ?? index.find(bytes, 0, bytes.length);
    if (other !== -1) requireDifferent(source, other, id);
    seen.set(text, id);
  }
}

/** Throws if two tokens are written alike. Two tokens may stand for the same text if they are written differently. */
function requireDifferent(source: PackedTexts, one: number, other: number): void {
  const text = stringAt(source, one);
  if (text !== stringAt(source, other)) return;
  const [first, second] = [Math.min(one, other), Math.max(one, other)];
  throw new TokenizerError(`the tokens ${first} and ${second} are both ${JSON.stringify(text)}`);
}

/**
 * The alphabet of byte-level BPE: one printable character for each byte, so that vocabularies and merges can be written as
 * text. Printable Latin-1 characters stand for themselves. The other 68 bytes are, in order, U+0100 and up, which is why a
 * space is written Ġ. The source is bytes_to_unicode of GPT-2's encoder.
 */
const firstSubstitute = 0x100;

function standsForItself(byte: number): boolean {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/** The character of each byte. */
export const charOfByte: readonly string[] = (() => {
  let substitute = firstSubstitute;
  return Array.from({ length: numBytes }, (_, byte) =>
    String.fromCharCode(standsForItself(byte) ? byte : substitute++),
  );
})();

/** The byte of each UTF-16 unit; 0xffff if the unit is not in the alphabet. */
const byteOfUnit = new Uint16Array(firstSubstitute + numBytes).fill(0xffff);
for (const [byte, char] of charOfByte.entries()) byteOfUnit[char.charCodeAt(0)] = byte;

/**
 * Decodes text of the alphabet into bytes. Reads UTF-8 from `start` to `end` of `source` and writes to `target` from `at` on.
 * Returns the number of bytes written, at most end - start, or -1 if a character is not in the alphabet.
 */
export function decodeAlphabet(
  source: Uint8Array,
  start: number,
  end: number,
  target: Uint8Array,
  at: number,
): number {
  let length = 0;
  for (let i = start; i < end; i++) {
    const lead = source[i] as number;
    let unit = lead;
    // The alphabet ends below U+0200, so a character has at most two bytes.
    if (lead >= 0xc0) unit = ((lead & 0x3f) << 6) | ((source[++i] as number) & 0x3f);
    const byte = lead >= 0xe0 ? 0xffff : (byteOfUnit[unit] ?? 0xffff);
    if (byte === 0xffff) return -1;
    target[at + length++] = byte;
  }
  return length;
}

/**
 * The spellings of tokens that end a text or a turn. Many files name only one of these tokens as an end, or none, and give them
 * the type of ordinary text. The names are those of the chat formats in use.
 */
const turnEnds: ReadonlySet<string> = new Set([
  '<|eot_id|>', // Llama 3
  '<|eom_id|>',
  '<|end_of_text|>',
  '<|im_end|>', // ChatML: Qwen, SmolLM
  '<|endoftext|>',
  '<|end|>', // Phi-3
  '<end_of_turn>', // Gemma
  '<｜end▁of▁sentence｜>', // DeepSeek
  '<|return|>', // gpt-oss
  '<|call|>',
  '<end_of_utterance>',
  '<EOT>',
  '[EOT]',
]);

export function endsTurn(token: string): boolean {
  return turnEnds.has(token);
}
