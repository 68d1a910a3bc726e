import type { IncomingMessage } from 'node:http';

/** The name of the server may be sent before the path. */
const TARGET = /^(?:https?:\/\/[^/?#]*)?([^?#]*)/;

/**
 * The path of a request as it was sent. Nothing in it is resolved or unescaped, so a route has one spelling, and a proxy
 * that keeps a path from clients compares what it sees. Parameters are unescaped where they are read.
 *
 * env: what node-server gives with a request. A request without a socket has its URL alone, in which dot segments are
 * resolved already.
 */
export function sentPath(request: Request, env: unknown): string {
  const { incoming } = (env ?? {}) as { incoming?: IncomingMessage };
  return TARGET.exec(incoming?.url ?? request.url)?.[1] || '/';
}
