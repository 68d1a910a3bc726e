import { randomUUID } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { ApiError } from '../../errors/api-error.ts';

/** An id that a client gives a request, or gets for it, to find it again in the logs of every server it passed. */

export const CORRELATION_HEADER = 'X-Correlation-Id';

const VARIABLE = 'correlationId';
const FORM = /^[A-Za-z0-9-]{1,64}$/;

/**
 * Takes the request's id or draws one, and echoes it in the answer, whatever that is. An id of another form, such as other
 * servers have, is replaced: nobody is refused for the sake of a log, and nothing strange gets into one.
 */
export const correlation: MiddlewareHandler = async (c, next) => {
  const given = c.req.header(CORRELATION_HEADER);
  const id = given !== undefined && FORM.test(given) ? given : randomUUID();
  c.set(VARIABLE, id);
  await next();
  c.header(CORRELATION_HEADER, id);
};

export function correlationIdOf(c: Context): string {
  return c.get(VARIABLE) as string;
}

export const DEADLINE_HEADER = 'X-Deadline';

/** A date and time that names its zone: without one, two machines read two moments. */
const ISO_8601 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/;

/** The moment after which the client wants no answer, in milliseconds since 1970; undefined without the header. */
export function parseDeadline(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const deadlineMs = /^\d{1,15}$/.test(header)
    ? Number(header)
    : ISO_8601.test(header)
      ? Date.parse(header)
      : Number.NaN;
  if (!Number.isNaN(deadlineMs)) return deadlineMs;
  const message = `${DEADLINE_HEADER} must be Unix milliseconds or an ISO 8601 time with a zone, such as 2026-01-02T03:04:05Z (got ${JSON.stringify(header)})`;
  const fieldErrors = [{ field: DEADLINE_HEADER, constraint: 'deadline', message, value: header }];
  throw new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
}
