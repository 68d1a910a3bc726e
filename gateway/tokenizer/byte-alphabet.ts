/**
 * The alphabet of byte-level BPE: one printable character for each byte, so that vocabularies and merges can be written
 * as text. Printable Latin-1 characters stand for themselves; the other 68 bytes, in order, for U+0100 and up, which is
 * why a space is written Ġ. From GPT-2's encoder (bytes_to_unicode).
 */
const numBytes = 256;
const firstSubstitute = 0x100;

function standsForItself(byte: number): boolean {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/** By byte. */
export const charOfByte: readonly string[] = (() => {
  let substitute = firstSubstitute;
  return Array.from({ length: numBytes }, (_, byte) =>
    String.fromCharCode(standsForItself(byte) ? byte : substitute++),
  );
})();

/** By UTF-16 code unit; 0xffff where the unit is not of the alphabet. */
const byteOfUnit = new Uint16Array(firstSubstitute + numBytes).fill(0xffff);
for (const [byte, char] of charOfByte.entries()) byteOfUnit[char.charCodeAt(0)] = byte;

/** The bytes that a token's text stands for, or undefined if a character is not of the alphabet. */
export function bytesOfText(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const byte = byteOfUnit[text.charCodeAt(i)] ?? 0xffff;
    if (byte === 0xffff) return undefined;
    bytes[i] = byte;
  }
  return bytes;
}
