import type { Context } from 'hono';
import { type StreamHooks, streamResponse } from './stream.ts';

/** A stream that has been silent for so long gets a comment: clients and proxies in between see that it lives. */
export const KEEP_ALIVE_INTERVAL_MS = 10_000;
const KEEP_ALIVE = ': keep-alive\n\n';

/** Calls back after a while, unless the returned function is called before. */
export type CallAfter = (delayMs: number, callback: () => void) => () => void;

/** Server-sent events; each chunk is a number of whole ones, so a comment never comes between the bytes of one. */
export function sseResponse(
  c: Context,
  events: AsyncIterator<string>,
  hooks: StreamHooks,
  callAfter: CallAfter = callAfterTimeout,
): Response {
  const chunks = withKeepAlive(events, callAfter);
  return streamResponse(c, 'text/event-stream', encoded(chunks), {
    onCancel: hooks.onCancel,
    onEnd: () => {
      chunks.stop();
      hooks.onEnd();
    },
  });
}

function encoded(events: KeptAlive): AsyncIterator<Uint8Array> {
  const encoder = new TextEncoder();
  return {
    async next() {
      const next = await events.next();
      return next.done
        ? { done: true, value: undefined }
        : { done: false, value: encoder.encode(next.value) };
    },
  };
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
