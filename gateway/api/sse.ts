import type { Context } from 'hono';
import { type StreamHooks, streamResponse } from './stream.ts';

/** Server-sent events; each chunk is a number of whole ones. */
export function sseResponse(c: Context, events: AsyncIterator<string>, hooks: StreamHooks): Response {
  return streamResponse(c, 'text/event-stream', encoded(events), hooks);
}

function encoded(events: AsyncIterator<string>): AsyncIterator<Uint8Array> {
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

/** An event with a name, as native streams use. */
export function namedEvent(event: string, json: string): string {
  return `event: ${event}\ndata: ${json}\n\n`;
}

/** An event without one, as OpenAI streams use: their clients wrap named events and would miss the data. */
export function dataEvent(json: string): string {
  return `data: ${json}\n\n`;
}
