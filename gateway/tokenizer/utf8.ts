/** Finds byte sequences that can still become a character. The ranges are those of Unicode 15, table 3-7. */

/**
 * The number of bytes at the end of `bytes`, 0 to 3, that begin a character which later bytes may complete. Bytes that are
 * already known to be invalid do not count.
 */
export function incompleteTailBytes(bytes: Uint8Array): number {
  for (let length = 1; length <= Math.min(3, bytes.length); length++) {
    const lead = bytes[bytes.length - length] as number;
    if (isContinuation(lead)) continue;
    const needed =
      lead >= 0xf0 && lead <= 0xf4
        ? 4
        : lead >= 0xe0 && lead < 0xf0
          ? 3
          : lead >= 0xc2 && lead < 0xe0
            ? 2
            : 1;
    if (length >= needed) return 0;
    if (length === 1) return 1;
    const second = bytes[bytes.length - length + 1] as number;
    return canFollow(lead, second) ? length : 0;
  }
  return 0;
}

function isContinuation(byte: number): boolean {
  return byte >= 0x80 && byte <= 0xbf;
}

/** Some lead bytes restrict the second byte, which rules out overlong forms, surrogates and code points above U+10FFFF. */
function canFollow(lead: number, second: number): boolean {
  switch (lead) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second <= 0x9f;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second <= 0x8f;
    default:
      return true;
  }
}

const strictDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * A token's bytes as text for people. If the bytes are not valid UTF-8 by themselves, such as the first half of a character,
 * `isText` is false and each byte that is not ASCII is written like \xe2.
 */
export function tokenText(bytes: Uint8Array): { readonly text: string; readonly isText: boolean } {
  try {
    return { text: strictDecoder.decode(bytes), isText: true };
  } catch {
    const escaped = Array.from(bytes, (byte) =>
      byte < 0x80 ? String.fromCharCode(byte) : `\\x${byte.toString(16)}`,
    );
    return { text: escaped.join(''), isText: false };
  }
}
