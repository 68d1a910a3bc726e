import * as z from 'zod';
import * as fields from '../fields.ts';
import { violated } from '../fields.ts';
import type { ThinkingWish } from '../thinking.ts';
import { MAX_TOKENS, UNLIMITED } from './shared-fields.ts';

/** Whether a model thinks before it answers, and for how long (docs/thinking.md). */

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;

function budget(name: string) {
  return z
    .preprocess(
      (value) => (value === UNLIMITED ? undefined : value),
      fields.integer(name, 0, MAX_TOKENS).optional(),
    )
    .meta({ minimum: UNLIMITED });
}

export const effort = z.enum(EFFORTS);

/** The same by the names that vLLM, Qwen's API and llama-server have for it. */
const budgets = {
  thinking_token_budget: budget('thinking_token_budget'),
  thinking_budget: budget('thinking_budget'),
  reasoning_budget: budget('reasoning_budget'),
};

export const thinkingFields = {
  reasoning_effort: effort.optional(),
  /** As llama-server has it. none: what is thought stays in the text, with its marks. */
  reasoning_format: z
    .enum(['none', 'auto', 'deepseek'])
    .default('auto')
    .transform((format) => (format === 'none' ? 'none' : 'auto')),
  ...budgets,
};

type ThinkingFields = z.output<z.ZodObject<typeof thinkingFields>> & {
  readonly chat_template_kwargs: Readonly<Record<string, unknown>>;
};

const budgetNames = Object.keys(budgets) as (keyof typeof budgets)[];

/** What says that it shall think, or not, by the field that does. */
function switches(request: ThinkingFields): [string, boolean][] {
  const { reasoning_effort: wanted, chat_template_kwargs: kwargs } = request;
  const said: [string, unknown][] = [
    ['reasoning_effort', wanted === undefined ? undefined : wanted !== 'none'],
    ...budgetNames.map((name): [string, unknown] => [name, request[name] === 0 ? false : undefined]),
    ['chat_template_kwargs', kwargs.enable_thinking ?? kwargs.thinking],
  ];
  return said.filter((each): each is [string, boolean] => typeof each[1] === 'boolean');
}

/** Rules across fields. */
export function checkThinkingFields(ctx: Pick<z.RefinementCtx, 'addIssue'>, request: ThinkingFields): void {
  const [first, ...others] = switches(request);
  const limits = budgetNames.filter((name) => request[name] !== undefined);
  const other = others.find(([, isOn]) => isOn !== first?.[1]);
  const isOff = first?.[1] === false;
  const [limit, second] = limits;
  const isContrary = isOff && limit !== undefined && request[limit] !== 0 ? [first[0], limit] : undefined;
  const pair =
    second !== undefined ? [limit, second] : other !== undefined ? [first?.[0], other[0]] : isContrary;
  if (pair === undefined) return;
  const sentence = `${pair[1]} and ${pair[0]} say different things of thinking; send one of them`;
  violated(ctx, { constraint: 'exclusive' }, sentence, [pair[1] ?? '']);
}

export function thinkingWishOf(request: ThinkingFields): ThinkingWish {
  const [[, isOn] = [undefined, undefined]] = switches(request);
  const limit = budgetNames.find((name) => request[name] !== undefined);
  const { reasoning_effort: wanted } = request;
  const hasEffort = wanted !== undefined && wanted !== 'none';
  const maxTokens = limit && request[limit];
  return {
    isOn,
    ...(hasEffort ? { effort: wanted, field: 'reasoning_effort' } : {}),
    ...(limit === undefined || maxTokens === 0 ? {} : { maxTokens, field: limit }),
  };
}
