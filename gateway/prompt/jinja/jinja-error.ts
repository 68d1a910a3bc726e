/** What a template does wrong, or the message that it raises; as text for the client. */
export class JinjaError extends Error {
  override readonly name = 'JinjaError';
}
