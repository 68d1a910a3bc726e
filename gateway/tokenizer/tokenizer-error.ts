/** A vocabulary that cannot be used; the message names what is wrong with it. Without a full stop at its end. */
export class TokenizerError extends Error {
  override readonly name = 'TokenizerError';
}
