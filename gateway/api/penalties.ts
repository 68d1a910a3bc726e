import type * as z from 'zod';
import * as fields from './fields.ts';

/** llama-server's names of the penalty for repetition, which other APIs share. */

type Context = Pick<z.RefinementCtx, 'addIssue'>;

/** The window that asks for what happens anyway: penalties count all tokens of the sequence. */
const ALL_TOKENS = -1;

export const penaltyFields = {
  repeat_penalty: fields.floatAbove('repeat_penalty', 0, 2).default(1),
  presence_penalty: fields.float('presence_penalty', -2, 2).default(0),
  frequency_penalty: fields.float('frequency_penalty', -2, 2).default(0),
  /** The number of last tokens that penalties count. */
  repeat_last_n: fields.integer('repeat_last_n', ALL_TOKENS, 2 ** 31 - 1).default(ALL_TOKENS),
};

type Penalties = z.output<z.ZodObject<typeof penaltyFields>>;

/** Refuses a window for penalties that act. hasOther: whether a penalty of another name acts. */
export function checkWindow(ctx: Context, request: Penalties, hasOther = false): void {
  const { repeat_penalty, presence_penalty, frequency_penalty, repeat_last_n } = request;
  const acts = hasOther || repeat_penalty !== 1 || presence_penalty !== 0 || frequency_penalty !== 0;
  if (!acts || repeat_last_n === ALL_TOKENS) return;
  const sentence = `must be ${ALL_TOKENS} beside a penalty: penalties count all tokens (got ${repeat_last_n})`;
  fields.violated(ctx, { constraint: 'unsupported' }, sentence, ['repeat_last_n']);
}

/** Names the window if it was ignored, which is where no penalty acts. */
export function ignoredWindow({ repeat_last_n }: Penalties, prefix = ''): string[] {
  return repeat_last_n === ALL_TOKENS ? [] : [`${prefix}repeat_last_n`];
}
