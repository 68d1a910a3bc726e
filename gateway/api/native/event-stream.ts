import type { Context } from 'hono';
import { accepts } from 'hono/accepts';
import { stringify } from 'lossless-json';
import { ResponseStream } from '../../server/streams/response-stream.ts';
import { eventStream, namedEvent } from '../../server/streams/sse.ts';
import { MSGPACK_TYPE, packMsgpack } from '../msgpack.ts';
import type { EventEncoder, NativeEvent } from './events.ts';

/**
 * A stream in the form the client accepts: server-sent events, or MessagePack maps one behind the other, in which the
 * event's name stands as `event` among its data. Both have the same events with the same values.
 */
export function nativeStream(c: Context): {
  readonly stream: ResponseStream;
  readonly encoder: EventEncoder;
} {
  const supports = ['text/event-stream', MSGPACK_TYPE];
  const type = accepts(c, { header: 'Accept', supports, default: 'text/event-stream' });
  return type === MSGPACK_TYPE
    ? { stream: new ResponseStream(c, MSGPACK_TYPE, { encoding: 'latin1' }), encoder: packed }
    : { stream: eventStream(c), encoder: serverSent };
}

const serverSent: EventEncoder = {
  token: ({ t, i, ids }) => {
    const tail = ids === undefined ? '' : `,"ids":[${ids.join(',')}]`;
    return `event: token\ndata: {"t":${JSON.stringify(t)},"i":${i}${tail}}\n\n`;
  },
  event: ({ event, data }) => namedEvent(event, jsonOf(data)),
};

const packed: EventEncoder = {
  token: (data) => pack({ event: 'token', data }),
  event: pack,
};

/** Each character is a byte. */
function pack({ event, data }: NativeEvent): string {
  return Buffer.from(packMsgpack({ event, ...data })).toString('latin1');
}

/** With 64-bit integers as they are. */
function jsonOf(data: object): string {
  const json = stringify(data);
  if (json === undefined) throw new TypeError('an event has no JSON form');
  return json;
}
