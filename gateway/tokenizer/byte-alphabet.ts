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

/**
 * Writes the bytes that a text of the alphabet stands for to `target`, from `at` on. Returns how many, at most as many as
 * the text takes as UTF-8; -1 if a character is not of the alphabet. source: UTF-8, from start to end.
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
    // The alphabet ends below U+0200: two bytes at most.
    if (lead >= 0xc0) unit = ((lead & 0x3f) << 6) | ((source[++i] as number) & 0x3f);
    const byte = lead >= 0xe0 ? 0xffff : (byteOfUnit[unit] ?? 0xffff);
    if (byte === 0xffff) return -1;
    target[at + length++] = byte;
  }
  return length;
}
