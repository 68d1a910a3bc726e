import type { Context } from 'hono';

/** A stream that has been silent for so long gets a comment: clients and proxies in between see that it lives. */
export const KEEP_ALIVE_INTERVAL_MS = 10_000;
const KEEP_ALIVE = ': keep-alive\n\n';

/** Calls back after a while, unless the returned function is called before. */
export type CallAfter = (delayMs: number, callback: () => void) => () => void;

export interface SseHooks {
  /** The client went away; must make the events end. */
  readonly onCancel: () => void;
  /** Called once, when nothing more will be sent. */
  readonly onEnd: () => void;
}

/**
 * Server-sent events as a body that is pulled: the next chunk is asked for only when the socket has taken the last
 * one, so a slow client slows its own stream down and nobody else's. A chunk is a number of whole events, so a comment
 * never comes between the bytes of one.
 */
export function sseResponse(
  c: Context,
  events: AsyncIterator<string>,
  hooks: SseHooks,
  callAfter: CallAfter = callAfterTimeout,
): Response {
  const encoder = new TextEncoder();
  const clientGone = c.req.raw.signal;
  const chunks = withKeepAlive(events, callAfter);
  let open = true;
  const end = (): void => {
    if (!open) return;
    open = false;
    chunks.stop();
    clientGone.removeEventListener('abort', cancel);
    hooks.onEnd();
  };
  // Reached through the body, or through the request's signal when the client left before the body was read.
  const cancel = (): void => {
    if (!open) return;
    hooks.onCancel();
    end();
  };
  if (clientGone.aborted) cancel();
  else clientGone.addEventListener('abort', cancel);
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = await chunks.next().catch((error: unknown) => {
          end();
          throw error;
        });
        if (next.done !== true) return controller.enqueue(encoder.encode(next.value));
        end();
        controller.close();
      },
      cancel,
    },
    { highWaterMark: 0 },
  );
  return c.body(body, 200, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache',
    // Tells nginx and its kin not to collect the stream.
    'x-accel-buffering': 'no',
  });
}

interface KeptAlive {
  /** The next chunk: of the events, or a comment in place of one that does not come. */
  next(): Promise<IteratorResult<string>>;
  /** Leaves no timer behind. */
  stop(): void;
}

function withKeepAlive(events: AsyncIterator<string>, callAfter: CallAfter): KeptAlive {
  let pending: Promise<IteratorResult<string>> | undefined;
  let stop = (): void => {};
  return {
    async next() {
      pending ??= events.next();
      const silence = new Promise<'silence'>((resolve) => {
        stop = callAfter(KEEP_ALIVE_INTERVAL_MS, () => resolve('silence'));
      });
      const first = await Promise.race([pending, silence]).finally(stop);
      if (first === 'silence') return { done: false, value: KEEP_ALIVE };
      pending = undefined;
      return first;
    },
    stop: () => stop(),
  };
}

function callAfterTimeout(delayMs: number, callback: () => void): () => void {
  const timer = setTimeout(callback, delayMs);
  return () => clearTimeout(timer);
}

/** An event with a name, as native streams use. */
export function namedEvent(event: string, json: string): string {
  return `event: ${event}\ndata: ${json}\n\n`;
}

/** An event without one, as OpenAI streams use: their clients wrap named events and would miss the data. */
export function dataEvent(json: string): string {
  return `data: ${json}\n\n`;
}
