import { createHash } from 'node:crypto';

const SHORT_ID = /^[a-zA-Z0-9]{9}$/;

/** An id of 9 letters and digits, which Mistral's templates ask for: the same for the same id, and such a one as it is. */
export function shortId(id: string): string {
  if (SHORT_ID.test(id)) return id;
  // 36 bits: of 4,096 calls two come out alike in one conversation of 8,000.
  return createHash('sha256').update(id).digest('hex').slice(0, 9);
}
