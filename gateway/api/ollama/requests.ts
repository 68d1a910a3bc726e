import * as z from 'zod';
import type { Grammar } from '../../runner/runner.ts';
import * as fields from '../fields.ts';
import { ANYTHING, type InertFields, ignoredIn, inert, NO, NO_ITEMS, ZERO } from '../inert.ts';
import { asObject, isJsonObject, memberOf } from '../json-values.ts';
import { JSON_OBJECT, schemaGrammar } from '../openai/grammar-fields.ts';
import { checkThinking, type SaidOfThinking, thinkingWishOf as wishOf } from '../openai/thinking-fields.ts';
import { ignoredInTools, toolFields, verbatimTools } from '../openai/tool-fields.ts';
import { ignoredWindow } from '../penalties.ts';
import type { ThinkingWish } from '../thinking.ts';
import { conversation, ignoredInMessages, verbatimMessages } from './conversation.ts';
import { type Options, options, optionsInert } from './options.ts';

/** Bodies of POST /api/chat and /api/generate. Each field is obeyed, refused by name, or has no effect. */

/** Fields of both routes. */
export const sharedInert = {
  logprobs: NO,
  top_logprobs: ZERO,
  // Prompts are never cut, and tokens are never shifted out of a context.
  shift: ANYTHING,
  truncate: NO,
} as const satisfies InertFields;

export const chatInert = sharedInert;

export const generateInert = {
  ...sharedInert,
  context: NO_ITEMS,
  images: NO_ITEMS,
  suffix: [''],
  template: [''],
} as const satisfies InertFields;

export const keepAlive = z
  .union([z.string(), z.number()], 'must be a duration such as "5m", or a number of seconds')
  .optional();

/** The grammar of the answer: "json" is any JSON object. */
const format = z
  .unknown()
  .transform((sent, ctx): Grammar | undefined => {
    if (sent === '') return undefined;
    if (sent === 'json') return JSON_OBJECT;
    if (isJsonObject(sent)) return schemaGrammar(ctx, 'format', sent, false);
    fields.violated(ctx, { constraint: 'type' }, 'format must be "json", or a JSON Schema, an object');
    return z.NEVER;
  })
  .meta({ type: ['string', 'object'] })
  .optional();

/** In this field, null is a value like any other. */
const verbatimFormat = 'format';

const sharedFields = {
  model: fields.nonEmpty('model'),
  stream: z.boolean().default(true),
  keep_alive: keepAlive,
  format,
  options,
  think: z
    .union([z.boolean(), z.enum(['low', 'medium', 'high'])], 'must be true, false, "low", "medium" or "high"')
    .optional(),
};

export const chatFields = {
  ...sharedFields,
  messages: conversation,
  tools: toolFields.tools,
  ...inert(chatInert),
};

export const generateFields = {
  ...sharedFields,
  prompt: z.string().default(''),
  system: z.string().default(''),
  raw: z.boolean().default(false),
  ...inert(generateInert),
};

const chatSchema = z.strictObject(chatFields).superRefine((request, ctx) => {
  checkThinking(ctx, saidOfThinking(request));
});

const generateSchema = z.strictObject(generateFields).superRefine((request, ctx) => {
  checkThinking(ctx, saidOfThinking(request));
  if (!request.raw) return;
  const refuse = (field: string): void => {
    const message = `${field} cannot be used with raw: the model then reads the prompt alone`;
    fields.violated(ctx, { constraint: 'exclusive' }, message, field.split('.'));
  };
  const { field } = thinkingWishOf(request);
  if (field !== undefined) refuse(field);
  if (request.system !== '') refuse('system');
});

export type ChatRequest = z.output<typeof chatSchema>;
export type GenerateRequestBody = z.output<typeof generateSchema>;

type ThinkingFields = Pick<ChatRequest, 'think' | 'options'>;

/** Without `think` and a budget, models think as their templates have it. */
export function thinkingWishOf(request: ThinkingFields): ThinkingWish {
  return wishOf(saidOfThinking(request));
}

function saidOfThinking({ think, options: { thinking_token_budget } }: ThinkingFields): SaidOfThinking {
  const isOn = think === undefined ? undefined : think !== false;
  return {
    switches: [['think', isOn]],
    ...(isOn ? { needing: 'think' } : {}),
    ...(typeof think === 'string' ? { effort: think } : {}),
    budgets: [['options.thinking_token_budget', thinking_token_budget]],
  };
}

/** Throws a 400 whose message names every field at fault. */
export function parseChatRequest(body: unknown): ChatRequest {
  return fields.parseBody(chatSchema, body, [verbatimMessages, ...verbatimTools, verbatimFormat]);
}

export function parseGenerateRequest(body: unknown): GenerateRequestBody {
  return fields.parseBody(generateSchema, body, [verbatimFormat]);
}

/**
 * Names the fields that were sent and ignored, each once. keep_alive is ignored because the operator decides how long
 * models stay, and may allow clients only to have one unloaded. asked: the options as they were read.
 */
export function ignoredByOllama(
  table: InertFields,
  body: unknown,
  isUnloadAllowed: boolean | undefined,
  asked?: Options,
): string[] {
  const inMessages = ignoredInMessages(memberOf(body, 'messages'));
  const isObeyed = isUnloadAllowed && asksToUnload({ keep_alive: memberOf(body, 'keep_alive') });
  return [
    ...ignoredIn(isObeyed ? table : { ...table, keep_alive: ANYTHING }, asObject(body)),
    ...ignoredIn(optionsInert, asObject(memberOf(body, 'options')), 'options.'),
    ...(asked === undefined ? [] : ignoredWindow(asked, 'options.')),
    ...new Set(inMessages),
    ...new Set(ignoredInTools(memberOf(body, 'tools'))),
  ];
}

const ZERO_DURATION = /^-?0+(\.0*)?[a-zµ]*$/;

/** Whether a request asks for its model to be unloaded. */
export function asksToUnload({ keep_alive }: { readonly keep_alive?: unknown }): boolean {
  return keep_alive === 0 || (typeof keep_alive === 'string' && ZERO_DURATION.test(keep_alive));
}
