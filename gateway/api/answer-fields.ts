import * as z from 'zod';
import type { AnswerEnd } from '../generation/text-stream.ts';

/** Members of answers that are the same in all APIs. */

/** The numerics id of the runner that continued an answer with other arithmetic than it began with. */
export const markFields = { continued_by: z.string().optional() };
export type Mark = z.infer<z.ZodObject<typeof markFields>>;

export function mark(end: AnswerEnd | undefined): Mark {
  return end?.continuedBy === undefined ? {} : { continued_by: end.continuedBy };
}

/** Tells an answer that ended at its time limit from one that reached its length: more tokens would not have helped it. */
export const endedByFields = { ended_by: z.literal('time_limit').optional() };
type EndedBy = z.infer<z.ZodObject<typeof endedByFields>>;

export function endedBy({ reason }: AnswerEnd): EndedBy {
  return reason === 'time_limit' ? { ended_by: reason } : {};
}

/** Both, for APIs that have them in one place. */
export function marks(end: AnswerEnd): Mark & EndedBy {
  return { ...endedBy(end), ...mark(end) };
}
