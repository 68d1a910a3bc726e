import type { IncomingMessage } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Context, MiddlewareHandler } from 'hono';

/** An answer that nobody has read the body for is its connection's last: the client need not send the rest of it. */
export const closeUnread: MiddlewareHandler = async (c, next) => {
  await next();
  const incoming = incomingOf(c);
  if (incoming === undefined || !hasBody(incoming) || incoming.complete) return;
  // A body that came in one packet with the header is there by then.
  await nextTurn();
  if (!incoming.complete) c.header('connection', 'close');
};

/** Undefined without a socket. */
function incomingOf(c: Context): IncomingMessage | undefined {
  return (c.env as { incoming?: IncomingMessage } | undefined)?.incoming;
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}
