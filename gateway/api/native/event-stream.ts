import type { Context } from 'hono';
import { accepts } from 'hono/accepts';
import type { Encoding } from '../../calls/call.ts';
import { jsonText } from '../../json/json-text.ts';
import { namedEvent } from '../../server/streams/sse.ts';
import { MSGPACK_TYPE, packMsgpack } from '../msgpack.ts';
import { type EventForm, ExecuteEvents, type ExecuteOptions, errorData, type NativeEvent } from './events.ts';

/**
 * Writes the events in the form that the client accepts: server-sent events, or consecutive MessagePack maps, in which the
 * member `event` is the event's name. Both forms have the same events with the same values.
 */
export function executeEncoding(c: Context, request: ExecuteOptions): Encoding {
  const supports = ['text/event-stream', MSGPACK_TYPE];
  const type = accepts(c, { header: 'Accept', supports, default: 'text/event-stream' });
  const form = type === MSGPACK_TYPE ? packed : serverSent;
  return {
    whole: () => {
      throw new Error('All answers of /execute are streams.');
    },
    stream: (facts, outlet) => new ExecuteEvents(request, facts, form, outlet),
    ...(form === packed
      ? { form: { type: MSGPACK_TYPE, encoding: 'latin1' } }
      : { failureEvent: (error) => namedEvent('error', JSON.stringify(errorData(error))) }),
  };
}

const serverSent: EventForm = {
  token: ({ t, i, ids }) => {
    const tail = ids === undefined ? '' : `,"ids":[${ids.join(',')}]`;
    return `event: token\ndata: {"t":${JSON.stringify(t)},"i":${i}${tail}}\n\n`;
  },
  event: ({ event, data }) => namedEvent(event, jsonText(data)),
};

const packed: EventForm = {
  token: (data, id) => pack({ event: 'token', data }, id),
  event: pack,
};

/** Each character of the result is a byte. */
function pack({ event, data }: NativeEvent, id: number | undefined): string {
  const named = id === undefined ? { event } : { event, id };
  return Buffer.from(packMsgpack({ ...named, ...data })).toString('latin1');
}
