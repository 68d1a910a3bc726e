import * as z from 'zod';
import type { ThinkingWish } from '../calls/thinking.ts';
import { maxTokens, violated } from './fields.ts';

/** What the fields about thinking have in common in all APIs (docs/thinking.md). */

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;

export const effort = z.enum(EFFORTS);

/** The number of tokens that may be thought; 0: no thinking, −1: no limit. */
export function budget(name: string) {
  return maxTokens(name, 0);
}

/** The budget by the names that vLLM, Qwen's API and llama-server use, in this order. */
export const budgetFields = {
  thinking_token_budget: budget('thinking_token_budget'),
  thinking_budget: budget('thinking_budget'),
  reasoning_budget: budget('reasoning_budget'),
};

type BudgetFields = z.output<z.ZodObject<typeof budgetFields>>;

/** What a request says about thinking, with the names of the fields that say it. */
export interface SaidOfThinking {
  /** Fields that turn thinking on or off; undefined: the field does not say. */
  readonly switches: readonly (readonly [field: string, isOn: boolean | undefined])[];
  /** For templates that read an effort. */
  readonly effort?: string | undefined;
  /** The field, other than a budget, that only a model that thinks can obey; undefined if the request has none. */
  readonly needing?: string | undefined;
  /** Fields that a model that does not think ignores. */
  readonly hints?: readonly string[];
  readonly budgets: readonly (readonly [field: string, numTokens: number | undefined])[];
}

/** What a request says by an effort and budgets. field: the name of the effort. */
export function saidBy(
  field: string,
  wanted: z.output<typeof effort> | undefined,
  request: BudgetFields,
  switches: SaidOfThinking['switches'] = [],
): SaidOfThinking {
  const isOn = wanted === undefined ? undefined : wanted !== 'none';
  return {
    switches: [[field, isOn], ...switches],
    ...(isOn ? { effort: wanted } : {}),
    ...(wanted === undefined ? {} : { hints: [field] }),
    budgets: Object.keys(budgetFields).map((name) => [name, request[name as keyof BudgetFields]]),
  };
}

/** The fields that turn thinking on or off, and which they do. A budget of 0 turns it off. */
function saying({ switches, budgets }: SaidOfThinking): (readonly [field: string, isOn: boolean])[] {
  const off = budgets.map(([field, numTokens]) => [field, numTokens === 0 ? false : undefined] as const);
  return [...switches, ...off].flatMap(([field, isOn]) =>
    isOn === undefined ? [] : [[field, isOn] as const],
  );
}

/** Reports two fields that contradict each other. */
export function checkThinking(ctx: Pick<z.RefinementCtx, 'addIssue'>, said: SaidOfThinking): void {
  const [first, ...others] = saying(said);
  const [limit, second] = said.budgets.filter(([, numTokens]) => numTokens !== undefined);
  const other = others.find(([, isOn]) => isOn !== first?.[1]);
  const isContrary = first?.[1] === false && limit !== undefined && limit[1] !== 0;
  const pair = second ? [limit, second] : other ? [first, other] : isContrary ? [first, limit] : undefined;
  const [one, another] = pair?.map((each) => each?.[0] ?? '') ?? [];
  if (one === undefined || another === undefined) return;
  const sentence = `${another} and ${one} contradict each other about thinking; send one of them`;
  violated(ctx, { constraint: 'exclusive' }, sentence, another.split('.'));
}

/** said: must have passed checkThinking(). */
export function thinkingWishOf(said: SaidOfThinking): ThinkingWish {
  const { effort: wanted, needing, hints = [], budgets } = said;
  const limit = budgets.find(([, numTokens]) => numTokens !== undefined && numTokens > 0);
  return {
    isOn: saying(said)[0]?.[1],
    ...(wanted === undefined ? {} : { effort: wanted }),
    ...(limit === undefined ? {} : { maxTokens: limit[1] }),
    field: limit?.[0] ?? needing,
    hints,
  };
}
