/**
 * A token's bytes as a string for people. Where they are not text by themselves, as in the first half of a character,
 * each byte that is not ASCII is written \xe2, and `isText` is false.
 */
export function tokenText(bytes: Uint8Array): { readonly text: string; readonly isText: boolean } {
  try {
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes), isText: true };
  } catch {
    const escaped = Array.from(bytes, (byte) =>
      byte < 0x80 ? String.fromCharCode(byte) : `\\x${byte.toString(16)}`,
    );
    return { text: escaped.join(''), isText: false };
  }
}
