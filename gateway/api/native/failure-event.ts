import type { Context } from 'hono';
import { accepts } from 'hono/accepts';
import type { ApiError } from '../../errors/api-error.ts';
import { namedEvent } from '../../server/streams/sse.ts';
import { MSGPACK_TYPE } from '../msgpack.ts';
import type { NativeErrorCode } from './events.ts';

/** Makes the event for a failure before the job began; undefined if the client accepts no server-sent events. */
export function failureEventFor(c: Context): ((error: ApiError) => string) | undefined {
  const supports = ['text/event-stream', MSGPACK_TYPE];
  const type = accepts(c, { header: 'Accept', supports, default: 'text/event-stream' });
  if (type === MSGPACK_TYPE) return undefined;
  return (error) => {
    const { message, retriable } = error;
    return namedEvent('error', JSON.stringify({ code: codeOf(error), message, retriable }));
  };
}

function codeOf({ status, code }: ApiError): NativeErrorCode {
  if (code === 'cancelled') return 'CANCELLED';
  if (status === 504) return 'TIMEOUT';
  return status < 500 ? 'INVALID_REQUEST' : 'INFERENCE_FAILED';
}
