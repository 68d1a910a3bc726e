import { once } from 'node:events';
import { lstatSync, unlinkSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { connect, type Socket } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { type Clock, systemClock } from '../system/clock.ts';
import { type PassedSocket, unixPathOf } from '../systemd/passed-socket.ts';
import { type AnswerUnreadable, Connections, UnreadableRequests } from './connections.ts';
import { StalledClients } from './stalled-clients.ts';
import type { StreamEnv } from './streams/response-stream.ts';

/** HTTP over a socket, with a bound on everything that a client can make the server hold or wait for. */

export interface HttpLimits {
  /** Time to send the header of a request, and time to send all of it. Making the answer is not limited. */
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  /** How often those two timeouts are checked. */
  readonly checkIntervalMs: number;
  /** How long an idle connection is kept between two requests. */
  readonly keepAliveTimeoutMs: number;
  /** How long a client may take nothing of an answer that is ready for it. */
  readonly clientStallTimeoutMs: number;
  readonly maxConnections: number;
  readonly maxRequestsPerConnection: number;
  readonly maxHeaders: number;
}

/**
 * A connection is kept this much longer than its clients are told, so that a request sent at the last moment is served.
 */
const KEEP_ALIVE_MARGIN_MS = 1000;

/** Where to listen: an address and port, or the path of a UNIX socket. */
export type Address = { readonly host: string; readonly port: number } | { readonly path: string };

interface HttpHooks {
  /** Called for each client whose connection is cut because it takes nothing. */
  readonly onStalled?: (heldBytes: number) => void;
  /** Answers a request that the application never saw, or could not answer itself. */
  readonly onError?: (error: unknown) => Response;
  /** Answers bytes that are not a readable request. */
  readonly onUnreadable?: AnswerUnreadable;
  /** By which clients count as stalled. */
  readonly clock?: Clock;
}

const withoutBody: AnswerUnreadable = () => ({ headers: {}, body: '' });

export function createHttpServer(
  fetch: Fetch,
  limits: HttpLimits,
  {
    onStalled = () => {},
    onError = () => new Response(null, { status: 500 }),
    onUnreadable = withoutBody,
    clock = systemClock,
  }: HttpHooks = {},
): Server {
  const stalled = new StalledClients({ timeoutMs: limits.clientStallTimeoutMs, onStalled, clock });
  const connections = new Connections(limits.maxRequestsPerConnection);
  const unreadable = new UnreadableRequests(onUnreadable, connections);
  const listener = boundedHeaders(
    getRequestListener(beginningStreams(fetch), { errorHandler: onError }) as RequestListener,
    limits.maxHeaders,
    unreadable,
  );
  const keepAlive = `timeout=${Math.floor(limits.keepAliveTimeoutMs / 1000)}`;
  const take: RequestListener = (incoming, outgoing) => {
    if (!connections.take(incoming, outgoing)) return;
    if (!outgoing.hasHeader('connection')) outgoing.setHeader('keep-alive', keepAlive);
    stalled.watch(outgoing);
    listener(incoming, outgoing);
  };
  const server = createServer(
    {
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: limits.checkIntervalMs,
      keepAliveTimeout: limits.keepAliveTimeoutMs + KEEP_ALIVE_MARGIN_MS,
      // TCP keep-alive: the kernel probes silent clients. Ten probes, a second apart, are enough.
      keepAlive: true,
      keepAliveInitialDelay: limits.clientStallTimeoutMs / 2,
      // The application checks the Host header, with its own error message.
      requireHostHeader: false,
    },
    take,
  );
  // An unknown Expect header is ignored; without this listener, Node answers 417.
  server.on('checkExpectation', take);
  server.on('clientError', (error, socket: Socket) => unreadable.onClientError(error, socket));
  server.maxConnections = limits.maxConnections;
  server.maxHeadersCount = limits.maxHeaders + 1;
  return server;
}

/** The function that answers a request. */
export type Fetch = Parameters<typeof getRequestListener>[0];

/** Lets streams write to the socket themselves, once the application has given the response its headers. */
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

/**
 * Refuses requests with too many header lines. Node drops lines beyond its limit silently, and a check may need one of
 * those.
 */
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

/** Listens, and returns the bound address with its port. Rejects if the address cannot be bound. */
export async function listen(server: Server, address: Address | PassedSocket): Promise<Address> {
  if ('path' in address) {
    await removeStaleSocket(address.path);
    // The umask keeps other users from connecting. A chmod after bind would leave them a moment.
    const umask = process.umask(0o177);
    server.listen(address);
    process.umask(umask);
  } else server.listen(address);
  await once(server, 'listening');
  const bound = server.address();
  // A host name stays as it was given. The address of a socket that was passed on is known to the system alone.
  if (typeof bound === 'object' && bound !== null)
    return { host: 'host' in address ? address.host : bound.address, port: bound.port };
  return 'fd' in address ? { path: unixPathOf(address.fd) } : address;
}

/**
 * Removes the socket file of a gateway that was killed. A socket that somebody listens on stays, and so do other files.
 */
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

/** How long the last bytes of ended streams may take to reach their clients. */
const FLUSH_MS = 2000;

/** Accepts no more connections; open ones live on. Settles when the last of them has ended. */
export async function stopAccepting(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  await closed;
}

/**
 * Closes the server: idle connections at once, the others when they end or after FLUSH_MS. closed: the promise of
 * stopAccepting, if it was called before.
 */
export async function close(server: Server, closed = stopAccepting(server)): Promise<void> {
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), FLUSH_MS);
  await closed;
  clearTimeout(timer);
}

/**
 * The application, imported when the server listens already, because importing it is a third of a start. Requests that
 * come earlier wait for it.
 */
export class DeferredApp {
  readonly #read: () => Promise<{ readonly fetch: Fetch }>;
  #reading: Promise<void> | undefined;
  #fetch: Fetch | undefined;

  constructor(read: () => Promise<{ readonly fetch: Fetch }>) {
    this.#read = read;
  }

  /** Imports the application, once however often it is called. Rejects if that fails. */
  load(): Promise<void> {
    this.#reading ??= this.#read().then(({ fetch }) => {
      this.#fetch = fetch;
    });
    return this.#reading;
  }

  readonly fetch: Fetch = async (request, env) => {
    if (this.#fetch === undefined) await this.load();
    if (this.#fetch === undefined) throw new Error('The application was read, and is not there.');
    return this.#fetch(request, env);
  };
}
