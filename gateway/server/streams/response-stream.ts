import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Context } from 'hono';
import type { OpenText } from '../../generation/merge-streams.ts';
import { type AtTurnEnd, turnEnd } from '../../system/turns.ts';
import { GATHER_MS, type StreamTimes, streamTimes, type TimedStream } from './stream-times.ts';

/**
 * Pending text longer than this is written before the turn ends: text takes many times the memory of the tokens that it
 * is made from.
 */
const MAX_PENDING_CHARS = 2 ** 15;

const KEEP_ALIVE = ': keep-alive\n\n';

declare module 'hono' {
  interface ContextVariableMap {
    /** The response stream, if it began before the answer was known (loading-stream.ts). */
    begunStream: ResponseStream;
    /** The timers of the application's streams; those of the process by default. */
    streamTimes: StreamTimes;
  }
}

type Encoding = 'utf8' | 'latin1';

/** Hono's environment of a request. outgoing is undefined without a socket. */
export interface StreamEnv {
  readonly outgoing?: ServerResponse;
  /** The answer of this request, if it is a stream. It begins when all headers are known. */
  stream?: ResponseStream;
}

interface ResponseStreamOptions {
  /** latin1 writes each character as a byte. */
  readonly encoding?: Encoding;
  /** Whether a comment breaks a long silence; for server-sent events. */
  readonly isKeptAlive?: boolean;
}

/**
 * An answer that is pushed. Written text gathers as pending text, which is sent once a turn of the event loop, or once in
 * GATHER_MS if tokens come faster than anybody reads. A client that is behind pauses its own source and nobody else's.
 */
export class ResponseStream implements AtTurnEnd, TimedStream {
  readonly #context: Context;
  readonly #contentType: string;
  readonly #encoding: Encoding;
  readonly #isKeptAlive: boolean;
  readonly #times: StreamTimes;
  #pending = '';
  #writtenMs = Number.NEGATIVE_INFINITY;
  #source: OpenText | undefined;
  #hasResponded = false;
  #onEnd: () => void = () => {};
  /** Undefined before the answer has begun and after its end. */
  #outlet: Outlet | undefined;
  #state: 'open' | 'ending' | 'over' = 'open';
  /** The client is behind: nothing is written until it has caught up. */
  #isFull = false;

  constructor(c: Context, contentType: string, options: ResponseStreamOptions = {}) {
    this.#context = c;
    this.#contentType = contentType;
    this.#encoding = options.encoding ?? 'utf8';
    this.#isKeptAlive = options.isKeptAlive ?? false;
    this.#times = (c.get('streamTimes') as StreamTimes | undefined) ?? streamTimes;
  }

  get writtenMs(): number {
    return this.#writtenMs;
  }

  /** Adds to the pending text. text: in the stream's encoding. */
  write(text: string): void {
    this.#pending += text;
    if (this.#pending.length > MAX_PENDING_CHARS && this.#outlet !== undefined && !this.#isFull) this.flush();
    else turnEnd.add(this);
  }

  /** Ends the stream after the pending text. */
  end(): void {
    if (this.#state === 'open') this.#state = 'ending';
    turnEnd.add(this);
  }

  /**
   * Returns the response, for the route to return. onEnd: called once, when nothing more will be sent or the client has
   * left. A client that leaves cancels the source.
   */
  respond(source: OpenText, onEnd: () => void = () => {}): Response {
    if (this.#hasResponded) return this.#goOn(source, onEnd);
    this.#hasResponded = true;
    const c = this.#context;
    const { signal } = c.req.raw;
    const leave = (): void => this.#leave();
    this.#source = source;
    this.#onEnd = () => {
      signal.removeEventListener('abort', leave);
      onEnd();
    };
    if (signal.aborted) leave();
    else signal.addEventListener('abort', leave);
    const headers = {
      'content-type': this.#contentType,
      'cache-control': 'no-cache',
      // Tells nginx and similar proxies not to buffer the stream.
      'x-accel-buffering': 'no',
    };
    const env = c.env as StreamEnv | undefined;
    if (env?.outgoing !== undefined) {
      env.stream = this;
      return c.body(null, 200, headers);
    }
    const { outlet, body } = bodyOutlet(() => this.#onDrain(), leave);
    // A pulled body starts full: nobody has asked for data yet.
    this.#isFull = true;
    source.pause();
    if (this.#state !== 'over') this.#outlet = outlet;
    else outlet.end();
    return c.body(body, 200, headers);
  }

  /** Takes another source for a response that has begun already. The returned response is not used. */
  #goOn(source: OpenText, onEnd: () => void): Response {
    if (this.#state === 'over') {
      source.cancel();
      onEnd();
    } else {
      const onEndBefore = this.#onEnd;
      this.#onEnd = () => {
        onEndBefore();
        onEnd();
      };
      this.#source = source;
      if (this.#isFull) source.pause();
    }
    return new Response(null);
  }

  /** Writes the header of this response, which is ours after the application's middleware, and then the pending text. */
  begin({ status, headers }: Response): void {
    const { outgoing } = this.#context.env as { outgoing: ServerResponse };
    if (this.#state === 'over') return;
    outgoing.writeHead(status, Object.fromEntries(headers));
    this.#outlet = socketOutlet(outgoing, () => this.#onDrain());
    if (this.#pending === '') outgoing.flushHeaders();
    if (this.#isKeptAlive) this.#times.keepAlive(this);
    this.onTurnEnd();
  }

  /** Breaks the stream off without an end, so that its client asks again. The pending text is lost. */
  cut(): void {
    const outlet = this.#outlet;
    this.#leave();
    outlet?.cut();
  }

  /** Ends the stream because the request gets another answer. */
  abandon(): void {
    this.#leave();
  }

  onTurnEnd(): void {
    if (this.#outlet === undefined || this.#isFull) return;
    if (this.#pending !== '') {
      const nowMs = this.#times.clock.now();
      const isFast = nowMs - this.#writtenMs < GATHER_MS;
      if (isFast && this.#state === 'open') this.#times.gather(this, nowMs);
      else this.#writePending(nowMs);
    }
    if (this.#state === 'ending' && !this.#isFull) this.#finish();
  }

  flush(): void {
    if (this.#outlet === undefined || this.#isFull || this.#pending === '') return;
    this.#writePending(this.#times.clock.now());
  }

  keepAlive(): void {
    this.#pending += KEEP_ALIVE;
    this.flush();
  }

  #writePending(nowMs: number): void {
    const text = this.#pending;
    this.#pending = '';
    this.#writtenMs = nowMs;
    if (this.#outlet?.write(text, this.#encoding) !== false) return;
    this.#isFull = true;
    // A client that does not read needs no keep-alive comments.
    this.#times.forget(this);
    this.#source?.pause();
  }

  #onDrain(): void {
    if (!this.#isFull || this.#state === 'over') return;
    this.#isFull = false;
    if (this.#isKeptAlive) this.#times.keepAlive(this);
    if (this.#pending !== '' || this.#state === 'ending') this.onTurnEnd();
    if (!this.#isFull) this.#source?.resume();
  }

  #finish(): void {
    this.#outlet?.end();
    this.#close();
  }

  #leave(): void {
    if (this.#state === 'over') return;
    this.#source?.cancel();
    this.#close();
  }

  #close(): void {
    this.#state = 'over';
    this.#pending = '';
    this.#outlet = undefined;
    this.#source = undefined;
    this.#times.forget(this);
    this.#onEnd();
  }
}

/** A stream of server-sent events. Each write must be whole events, so that a keep-alive comment never splits one. */
export function eventStream(c: Context): ResponseStream {
  const begun = c.get('begunStream') as ResponseStream | undefined;
  return begun ?? new ResponseStream(c, 'text/event-stream', { isKeptAlive: true });
}

/** An event with a name, as native streams use. */
export function namedEvent(event: string, json: string): string {
  return `event: ${event}\ndata: ${json}\n\n`;
}

/** An event without a name, as OpenAI streams use: their clients miss the data of named events. */
export function dataEvent(json: string): string {
  return `data: ${json}\n\n`;
}

/** Where a stream is written to. */
export interface Outlet {
  /** text: not empty. Returns false if the client is behind; onDrain is called when it has caught up. */
  write(text: string, encoding: Encoding): boolean;
  end(): void;
  /** Breaks the connection off, so that the client sees that the answer is incomplete. */
  cut(): void;
}

/** Writes to Node's own response, whose header has been written. */
export function socketOutlet(outgoing: ServerResponse, onDrain: () => void): Outlet {
  outgoing.on('drain', onDrain);
  // Node reports a connection that breaks during a write. The listener only keeps that from throwing: the stream ends by
  // 'close'.
  outgoing.on('error', () => {});
  let hasBegun = false;
  return {
    write: (text, encoding) => {
      if (outgoing.destroyed) return true;
      const { socket } = outgoing;
      if (hasBegun && socket?.writable && outgoing.chunkedEncoding)
        return writeChunk(socket, text, encoding, onDrain);
      // The first write takes the header along.
      hasBegun = socket !== null;
      return outgoing.write(text, encoding);
    },
    end: () => outgoing.end(),
    cut: () => outgoing.destroy(),
  };
}

/**
 * Writes a chunk in one piece. Node's response makes four writes of it and joins them later, which costs more than all that
 * makes the text.
 */
function writeChunk(socket: Socket, text: string, encoding: Encoding, onDrain: () => void): boolean {
  const numBytes = Buffer.byteLength(text, encoding);
  const isTaken = socket.write(`${numBytes.toString(16)}\r\n${text}\r\n`, encoding);
  // The response reports only what it has written itself.
  if (!isTaken) socket.once('drain', onDrain);
  return isTaken;
}

/** Writes to a pulled body, for a request without a socket. A client that has not asked for more is behind. */
export function bodyOutlet(
  onDrain: () => void,
  onCancel: () => void,
): { readonly outlet: Outlet; readonly body: ReadableStream<Uint8Array> } {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>(
    {
      start: (started) => {
        controller = started;
      },
      pull: onDrain,
      cancel: onCancel,
    },
    { highWaterMark: 0 },
  );
  const outlet: Outlet = {
    write: (text, encoding) => {
      controller?.enqueue(Buffer.from(text, encoding));
      return (controller?.desiredSize ?? 0) > 0;
    },
    end: () => controller?.close(),
    cut: () => controller?.error(new Error('The stream was broken off.')),
  };
  return { outlet, body };
}
