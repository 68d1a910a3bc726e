import { once } from 'node:events';
import { lstatSync, unlinkSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { type PassedSocket, unixPathOf } from '../systemd/passed-socket.ts';
import { Connections } from './connections.ts';
import { StalledClients } from './stalled-clients.ts';
import type { StreamEnv } from './streams/response-stream.ts';
import { type AnswerUnreadable, UnreadableRequests } from './unreadable-requests.ts';

/** HTTP over a socket, with a bound on everything a client can make us hold or wait for. */

export interface HttpLimits {
  /** Time to send the header of a request, and the whole of it; making the answer may take as long as it takes. */
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  /** How often those are looked at. */
  readonly checkIntervalMs: number;
  /** Between two requests on one connection. */
  readonly keepAliveTimeoutMs: number;
  /** How long a client may take nothing of an answer that is there. */
  readonly clientStallTimeoutMs: number;
  readonly maxConnections: number;
  readonly maxRequestsPerConnection: number;
  readonly maxHeaders: number;
}

/** A connection is kept for so much longer than its clients are told, so that one that asks at the last moment is heard. */
const KEEP_ALIVE_MARGIN_MS = 1000;

/** Where to listen: an address and port, or the path of a UNIX socket. */
export type Address = { readonly host: string; readonly port: number } | { readonly path: string };

export interface HttpHooks {
  /** Hears of clients whose connections are cut because they take nothing. */
  readonly onStalled?: (heldBytes: number) => void;
  /** Answers what the application never saw, or could not answer itself. */
  readonly onError?: (error: unknown) => Response;
  /** The same for what is no request. */
  readonly onUnreadable?: AnswerUnreadable;
}

const withoutBody: AnswerUnreadable = () => ({ headers: {}, body: '' });

export function createHttpServer(
  fetch: Fetch,
  limits: HttpLimits,
  {
    onStalled = () => {},
    onError = () => new Response(null, { status: 500 }),
    onUnreadable = withoutBody,
  }: HttpHooks = {},
): Server {
  const unreadable = new UnreadableRequests(onUnreadable);
  const stalled = new StalledClients({ timeoutMs: limits.clientStallTimeoutMs, onStalled });
  const connections = new Connections(limits.maxRequestsPerConnection);
  const listener = boundedHeaders(
    getRequestListener(beginningStreams(fetch), { errorHandler: onError }) as RequestListener,
    limits.maxHeaders,
    unreadable,
  );
  const keepAlive = `timeout=${Math.floor(limits.keepAliveTimeoutMs / 1000)}`;
  const take: RequestListener = (incoming, outgoing) => {
    if (!connections.take(incoming, outgoing)) return;
    if (!outgoing.hasHeader('connection')) outgoing.setHeader('keep-alive', keepAlive);
    unreadable.take(incoming, outgoing);
    stalled.watch(outgoing);
    listener(incoming, outgoing);
  };
  const server = createServer(
    {
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: limits.checkIntervalMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs + KEEP_ALIVE_MARGIN_MS,
      // The kernel asks those that wait in silence whether they are there; ten questions, a second apart, are enough.
      keepAlive: true,
      keepAliveInitialDelay: limits.clientStallTimeoutMs / 2,
      // The application looks, and answers in its own words.
      requireHostHeader: false,
    },
    take,
  );
  // An expectation that nobody knows changes nothing.
  server.on('checkExpectation', take);
  server.on('clientError', (error, socket: Socket) => unreadable.onClientError(error, socket));
  server.maxConnections = limits.maxConnections;
  server.maxHeadersCount = limits.maxHeaders + 1;
  return server;
}

/** What answers a request. */
export type Fetch = Parameters<typeof getRequestListener>[0];

/** Streams write to the socket themselves, once the application has given the response its headers. */
function beginningStreams(fetch: Fetch): Fetch {
  return async (request, env) => {
    const response = (await fetch(request, env)) as Response;
    const { stream } = env as StreamEnv;
    if (stream === undefined) return response;
    if (response.status === 200) {
      stream.begin(response);
      return RESPONSE_ALREADY_SENT;
    }
    stream.abandon();
    return response;
  };
}

/** Node leaves out lines beyond its count in silence, and one of them may be what a check looks at. */
function boundedHeaders(
  listener: RequestListener,
  maxHeaders: number,
  unreadable: UnreadableRequests,
): RequestListener {
  return (incoming, outgoing) => {
    if (incoming.rawHeaders.length <= 2 * maxHeaders) return listener(incoming, outgoing);
    unreadable.refuse(outgoing);
  };
}

/** The address that was taken, with its port. Rejects when it cannot be had. */
export async function listen(server: Server, address: Address | PassedSocket): Promise<Address> {
  if ('path' in address) {
    await removeStaleSocket(address.path);
    // Nobody but this user may connect, not even between bind and a chmod.
    const umask = process.umask(0o177);
    server.listen(address);
    process.umask(umask);
  } else server.listen(address);
  await once(server, 'listening');
  const bound = server.address();
  // A name stays as it was given; where a socket that was passed on is, only the system knows.
  if (typeof bound === 'object' && bound !== null)
    return { host: 'host' in address ? address.host : bound.address, port: bound.port };
  return 'fd' in address ? { path: unixPathOf(address.fd) } : address;
}

/** What a gateway that was killed has left. One that listens is not touched, nor is anything but a socket. */
async function removeStaleSocket(path: string): Promise<void> {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSocket() !== true) return;
  const socket = connect(path);
  try {
    await once(socket, 'connect');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') unlinkSync(path);
  } finally {
    socket.destroy();
  }
}

/** How long the last bytes of streams that have ended may take to reach their clients. */
const FLUSH_MS = 2000;

/** Takes no more connections; those that are there live on. Settles when the last of them has ended. */
export async function stopAccepting(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  await closed;
}

/** closed: of a server that has stopped accepting. */
export async function close(server: Server, closed = stopAccepting(server)): Promise<void> {
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), FLUSH_MS);
  await closed;
  clearTimeout(timer);
}
