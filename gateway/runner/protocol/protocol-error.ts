/**
 * What is wrong with the bytes. varint, oversize, truncated: a frame. garbage, empty: a message. field: a value outside
 * its limit. order: something said at the wrong time, or about the wrong request. rate: too much of what nobody asked for.
 * version: another protocol. internal: nothing; the gateway itself failed at them.
 */
export type ProtocolErrorKind =
  | 'varint'
  | 'oversize'
  | 'truncated'
  | 'garbage'
  | 'empty'
  | 'field'
  | 'order'
  | 'rate'
  | 'version'
  | 'internal';

/** The runner broke the protocol (docs/protocol.md). Nothing it says afterwards counts. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
  readonly kind: ProtocolErrorKind;

  constructor(kind: ProtocolErrorKind, message: string, options?: { cause: unknown }) {
    super(message, options);
    this.kind = kind;
  }
}
