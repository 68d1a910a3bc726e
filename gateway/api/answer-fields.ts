import * as z from 'zod';
import type { Receipt } from '../generation/receipt.ts';
import type { AnswerEnd } from '../generation/text-stream.ts';

/** Members of answers that are the same in all APIs. */

/** The numerics id of the runner that continued an answer with other arithmetic than it began with. */
export const markFields = { continued_by: z.string().optional() };
export type Mark = z.infer<z.ZodObject<typeof markFields>>;

export function mark(end: AnswerEnd | undefined): Mark {
  return end?.continuedBy === undefined ? {} : { continued_by: end.continuedBy };
}

const RECEIPT = 'What the answer was computed from, and its tokens, as hashes.';
/** Many answers have one, so /openapi.json has its schema once. */
export const receiptFields = {
  receipt: z
    .custom<Receipt>()
    .meta({ $ref: '#/components/schemas/Receipt', description: RECEIPT })
    .optional(),
};
type Receipted = z.infer<z.ZodObject<typeof receiptFields>>;

export function receipted({ receipt }: AnswerEnd): Receipted {
  return receipt === undefined ? {} : { receipt };
}

export const endingFields = {
  /** Tells an answer that ended at its time limit from one that reached its length: more tokens would not have helped it. */
  ended_by: z.literal('time_limit').optional(),
  ...receiptFields,
};
type EndedBy = z.infer<z.ZodObject<typeof endingFields>>;

export function ending(end: AnswerEnd): EndedBy {
  return { ...(end.reason === 'time_limit' ? { ended_by: end.reason } : {}), ...receipted(end) };
}

/** Both, for APIs that have them in one place. */
export function marks(end: AnswerEnd): Mark & EndedBy {
  return { ...ending(end), ...mark(end) };
}
