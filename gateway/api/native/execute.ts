import type { Handler } from 'hono';
import * as z from 'zod';
import { answer } from '../../calls/answer.ts';
import { cancelled } from '../../runner/runner.ts';
import { callersOf } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { parseBody } from '../body.ts';
import * as fields from '../fields.ts';
import { executeLog } from './execute-log.ts';
import { parseExecute, readBody } from './execute-request.ts';

export const cancelSchema = z.strictObject({ job_id: fields.nonEmpty('job_id') });

/** A prompt in, its continuation as events. */
export function executing(deps: RouteDeps): Handler {
  return async (c) => {
    const body = await readBody(c);
    const { request, ...parsed } = parseExecute(body, c);
    return answer(c, deps, { ...parsed, log: executeLog(c, deps, request) }, body);
  };
}

/** The end of any job that has an id. */
export function cancelling(deps: RouteDeps): Handler {
  return async (c) => {
    const { job_id } = parseBody(cancelSchema, await readBody(c));
    await deps.jobs.cancel(callersOf(c), job_id, cancelled());
    return c.json({ job_id }, 202);
  };
}
