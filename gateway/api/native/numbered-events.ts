import { ApiError, shown } from '../../errors/api-error.ts';
import type { EventEncoder } from './events.ts';

export const LAST_EVENT_HEADER = 'Last-Event-ID';

/**
 * The number of the last event that the client has; -1 without the header, for a client that has none. Throws a 400 if it
 * is no number.
 */
export function parseLastEventId(header: string | undefined): number {
  if (header === undefined || header === '') return -1;
  if (/^\d{1,15}$/.test(header)) return Number(header);
  const message = `${LAST_EVENT_HEADER} must be the id of an event of this job, which is a number from 0 (got ${JSON.stringify(shown(header))})`;
  const fieldErrors = [{ field: LAST_EVENT_HEADER, constraint: 'event_id', message, value: shown(header) }];
  throw new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
}

/** Numbers events from 0, and leaves out those up to `last`, which the client has. */
export function numbered(encoder: EventEncoder, last: number): EventEncoder {
  let next = 0;
  const encoded = (encode: (id: number) => string): string => {
    const id = next++;
    return id <= last ? '' : encode(id);
  };
  return {
    token: (data) => encoded((id) => encoder.token(data, id)),
    event: (event) => encoded((id) => encoder.event(event, id)),
  };
}
