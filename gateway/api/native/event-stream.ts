import type { Context } from 'hono';
import { accepts } from 'hono/accepts';
import { stringify } from 'lossless-json';
import { namedEvent, sseResponse } from '../../server/streams/sse.ts';
import { type StreamHooks, streamResponse } from '../../server/streams/stream.ts';
import { MSGPACK_TYPE, packMsgpack } from '../msgpack.ts';
import type { NativeEvent } from './events.ts';

/**
 * The events in the form the client accepts: server-sent events, or MessagePack maps one behind the other, in which the
 * event's name stands as `event` among its data. Both have the same events with the same values.
 */
export function eventStream(
  c: Context,
  events: AsyncIterable<readonly NativeEvent[]>,
  hooks: StreamHooks,
): Response {
  const supports = ['text/event-stream', MSGPACK_TYPE];
  const type = accepts(c, { header: 'Accept', supports, default: 'text/event-stream' });
  return type === MSGPACK_TYPE
    ? streamResponse(c, MSGPACK_TYPE, eachWrite(events, packEvents), hooks)
    : sseResponse(c, eachWrite(events, sseEvents), hooks);
}

async function* eachWrite<Write>(
  events: AsyncIterable<readonly NativeEvent[]>,
  encode: (events: readonly NativeEvent[]) => Write,
): AsyncGenerator<Write> {
  for await (const write of events) yield encode(write);
}

function packEvents(events: readonly NativeEvent[]): Uint8Array {
  return Buffer.concat(events.map(({ event, data }) => packMsgpack({ event, ...data })));
}

function sseEvents(events: readonly NativeEvent[]): string {
  return events.map(({ event, data }) => namedEvent(event, jsonOf(data))).join('');
}

/** With 64-bit integers as they are. */
function jsonOf(data: object): string {
  const json = stringify(data);
  if (json === undefined) throw new TypeError('an event has no JSON form');
  return json;
}
