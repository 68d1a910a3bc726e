import { ApiError, shown } from '../errors/api-error.ts';
import { JournalRefusal } from '../journal/journal-error.ts';

/** What clients hear whose jobs cannot be begun or changed now. */

/** When a client of a gateway that stops tries the next one. */
const nextGatewaySec = 1;

export function stopping(): JournalRefusal {
  const message =
    'The server is stopping, and its durable jobs go on in the next one; send the request to that.';
  return new JournalRefusal('unavailable', message, nextGatewaySec);
}

export function jobIdInUse(id: string): ApiError {
  const message = `job_id ${JSON.stringify(shown(id))} is in use by a running job, or by a durable one that is kept; wait for its end or choose another`;
  return new ApiError({ status: 409, code: 'job_id_in_use', message, param: 'job_id' });
}

export function notDurable(id: string, how: string): ApiError {
  const message = `The job ${JSON.stringify(shown(id))} is not durable, so it cannot be ${how}; begin it with "durable": true`;
  return new ApiError({ status: 409, code: 'job_not_durable', message, param: 'job_id' });
}

export function jobEnded(id: string, how: string): ApiError {
  const message = `The job ${JSON.stringify(shown(id))} has ended, so it cannot be ${how}; GET /jobs/ID says how it ended`;
  return new ApiError({ status: 409, code: 'job_ended', message, param: 'job_id' });
}

/** For a request whose twin is being begun. */
export function keyInUse(): ApiError {
  const message = 'A request with this Idempotency-Key is being begun; send it again in a moment.';
  const options = { status: 409, code: 'idempotency_key_in_use', message, param: 'Idempotency-Key' } as const;
  return new ApiError({ ...options, retriable: true, retryAfterSec: 1 });
}
