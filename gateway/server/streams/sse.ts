import type { Context } from 'hono';
import { ResponseStream } from './response-stream.ts';
import type { StreamTimes } from './stream-times.ts';

declare module 'hono' {
  interface ContextVariableMap {
    /** The answer, where it had to begin before it was known: loading-stream.ts. */
    begunStream: ResponseStream;
  }
}

/** Server-sent events. Each write is a number of whole ones, so a comment never comes between the bytes of one. */
export function eventStream(c: Context, times?: StreamTimes): ResponseStream {
  const begun = c.get('begunStream') as ResponseStream | undefined;
  return begun ?? new ResponseStream(c, 'text/event-stream', { isKeptAlive: true, ...(times && { times }) });
}

/** An event with a name, as native streams use. */
export function namedEvent(event: string, json: string): string {
  return `event: ${event}\ndata: ${json}\n\n`;
}

/** An event without one, as OpenAI streams use: their clients wrap named events and would miss the data. */
export function dataEvent(json: string): string {
  return `data: ${json}\n\n`;
}
