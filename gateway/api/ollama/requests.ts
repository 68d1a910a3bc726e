import * as z from 'zod';
import type { Call, ParsedCall } from '../../calls/call.ts';
import type { ContextLimit } from '../../calls/prompt.ts';
import { RawJson } from '../../json/json-text.ts';
import { isJsonObject } from '../../json/json-values.ts';
import type { ChatMessage } from '../../prompt/chat-template.ts';
import type { Grammar } from '../../runner/runner.ts';
import { ignoredIn, parseBody } from '../body.ts';
import { durable } from '../durable-field.ts';
import * as fields from '../fields.ts';
import { ANYTHING, type InertFields, inert, MAX_TOKENS, NO, NO_ITEMS, ONE, ZERO } from '../fields.ts';
import { checkWindow, ignoredWindow, penaltyFields, samplingFields, samplingOf } from '../sampling-fields.ts';
import { JSON_OBJECT, schemaGrammar } from '../schema-grammar.ts';
import { budget, checkThinking, type SaidOfThinking, thinkingWishOf } from '../thinking-parts.ts';
import { toolFields } from '../tools.ts';
import { answerEncoding, type Form, type WholeCall } from './answer-lines.ts';
import type { ChatMessageText } from './answers.ts';
import { conversation } from './conversation.ts';

/** Bodies of POST /api/chat and /api/generate. Each field is obeyed, refused by name, or has no effect. */

/** Values of num_predict for "limited by the context alone". */
const UNLIMITED: readonly number[] = [-1, -2];
/** The value of seed for a random one. */
const ANY_SEED = -1;

const optionsFields = {
  ...samplingFields({ temperature: 0.8, top_k: 40, top_p: 0.9 }),
  min_p: fields.float('min_p', 0, 1).default(0),
  ...penaltyFields,
  seed: z.preprocess((value) => (value === ANY_SEED ? undefined : value), fields.seed('seed').optional()),
  num_ctx: fields.integer('num_ctx', 1, MAX_TOKENS).optional(),
  num_predict: fields.maxTokens('num_predict', 1, UNLIMITED),
  /** Not Ollama's, which has none: vLLM's. */
  thinking_token_budget: budget('thinking_token_budget'),
  stop: fields.oneOrMany(fields.stopSequences('stop')).default([]),
  ...inert({
    // Prompts are never cut, so there is nothing to keep.
    num_keep: ANYTHING,
    // Samplers that must be off, and the parameters that those samplers would have.
    mirostat: ZERO,
    mirostat_eta: ANYTHING,
    mirostat_tau: ANYTHING,
    tfs_z: ONE,
    typical_p: ONE,
    penalize_newline: [true],
    // How the model is run, which the operator decides.
    f16_kv: ANYTHING,
    low_vram: ANYTHING,
    main_gpu: ANYTHING,
    num_batch: ANYTHING,
    num_gpu: ANYTHING,
    num_thread: ANYTHING,
    numa: ANYTHING,
    use_mlock: ANYTHING,
    use_mmap: ANYTHING,
    vocab_only: NO,
  }),
};

export const options = z
  .strictObject(optionsFields)
  .superRefine((request, ctx) => checkWindow(ctx, request))
  .prefault({});

export type Options = z.output<typeof options>;

/** num_ctx bounds a prompt and its answer. It cannot make the context larger. */
export function contextOf({ num_ctx }: Options, limit: ContextLimit): ContextLimit {
  return { ...limit, maxModelLen: Math.min(limit.maxModelLen, num_ctx ?? limit.maxModelLen) };
}

/** Fields of both routes. */
export const sharedInert = {
  logprobs: NO,
  top_logprobs: ZERO,
  // Prompts are never cut, and tokens are never shifted out of a context.
  shift: ANYTHING,
  truncate: NO,
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

const sharedFields = {
  model: fields.nonEmpty('model'),
  stream: z.boolean().default(true),
  durable,
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
  ...inert(sharedInert),
};

export const generateFields = {
  ...sharedFields,
  prompt: z.string().default(''),
  system: z.string().default(''),
  raw: z.boolean().default(false),
  ...inert({
    ...sharedInert,
    context: NO_ITEMS,
    images: NO_ITEMS,
    suffix: [''],
    template: [''],
  }),
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
  const { field } = thinkingWishOf(saidOfThinking(request));
  if (field !== undefined) refuse(field);
  if (request.system !== '') refuse('system');
});

type ChatRequest = z.output<typeof chatSchema>;
type GenerateRequestBody = z.output<typeof generateSchema>;

type ThinkingFields = Pick<ChatRequest, 'think' | 'options'>;

/** Without `think` and a budget, models think as their templates have it. */
function saidOfThinking({ think, options: { thinking_token_budget } }: ThinkingFields): SaidOfThinking {
  const isOn = think === undefined ? undefined : think !== false;
  return {
    switches: [['think', isOn]],
    ...(isOn ? { needing: 'think' } : {}),
    ...(typeof think === 'string' ? { effort: think } : {}),
    budgets: [['options.thinking_token_budget', thinking_token_budget]],
  };
}

/** What a body of a generating route asks. */
export interface Asked extends Pick<ParsedCall, 'call' | 'encoding'> {
  readonly form: Form;
  /** Whether there is no prompt: the model is to be loaded, and nothing else. */
  readonly isEmpty: boolean;
  /** Whether the model is to be unloaded. */
  readonly isLast: boolean;
  /** Names the fields that were sent and are ignored. isUnloadAllowed: whether clients may have models unloaded. */
  readonly ignored: (isUnloadAllowed: boolean | undefined) => string[];
}

/** Throws a 400 whose message names every field at fault. */
export function parseChat(body: unknown): Asked {
  const request = parseBody(chatSchema, body);
  const { messages, tools } = request;
  return askedBy(chatSchema, body, request, {
    input: { field: 'messages', messages },
    tools: tools.length === 0 ? undefined : { tools, choice: 'auto', isParallel: true },
    isEmpty: messages.length === 0,
    textAs: (content, calls, thinking) => {
      const thought = thinking === undefined ? {} : { thinking };
      return { message: { role: 'assistant', content, ...thought, ...called(calls) } };
    },
  });
}

/** The same. Unless the request is raw, its prompt is the user's message of a conversation, if the model has a template. */
export function parseGenerate(body: unknown): Asked {
  const request = parseBody(generateSchema, body);
  const { prompt, system, raw } = request;
  const first: ChatMessage[] = system === '' ? [] : [{ role: 'system', content: system }];
  const messages = [...first, { role: 'user', content: prompt } as const];
  const withoutTemplate = system === '' ? prompt : undefined;
  return askedBy(generateSchema, body, request, {
    input: { field: 'prompt', ...(raw ? { prompts: [prompt] } : { messages, withoutTemplate }) },
    isEmpty: prompt === '',
    textAs: (response, _calls, thinking) => ({ response, ...(thinking === undefined ? {} : { thinking }) }),
  });
}

function askedBy(
  schema: z.ZodType,
  body: unknown,
  request: ChatRequest | GenerateRequestBody,
  {
    input,
    tools,
    isEmpty,
    textAs,
  }: Pick<Call, 'input' | 'tools'> & Pick<Asked, 'isEmpty'> & Pick<Form, 'textAs'>,
): Asked {
  const { model, format: grammar, options: asked } = request;
  const form = { model, textAs };
  const call: Call = {
    model,
    isStreamed: request.stream,
    input,
    tools,
    format: grammar && { field: 'format', grammar },
    thinking: thinkingWishOf(saidOfThinking(request)),
    sampling: samplingOf(asked),
    seed: asked.seed,
    maxTokens: asked.num_predict,
    maxContext: asked.num_ctx,
    stop: asked.stop,
    report: { timings: true },
    durable: request.durable ? 'durable' : undefined,
  };
  return {
    call,
    form,
    encoding: answerEncoding(form),
    isEmpty,
    isLast: asksToUnload(request),
    ignored: (isUnloadAllowed) => ignoredByOllama(schema, body, request, isUnloadAllowed),
  };
}

/** The member of a message with these calls; nothing without calls. */
function called(calls: readonly WholeCall[]): Pick<ChatMessageText['message'], 'tool_calls'> {
  if (calls.length === 0) return {};
  return {
    tool_calls: calls.map(({ id, index, name, arguments: given }) => {
      return { id, function: { index, name, arguments: new RawJson(given) } };
    }),
  };
}

/**
 * Names the fields that were sent and ignored. keep_alive is ignored because the operator decides how long models stay, and
 * may allow clients only to have one unloaded.
 */
export function ignoredByOllama(
  schema: z.ZodType,
  body: unknown,
  request: Pick<ChatRequest, 'keep_alive' | 'options'>,
  isUnloadAllowed: boolean | undefined,
): string[] {
  const isObeyed = request.keep_alive === undefined || (isUnloadAllowed && asksToUnload(request));
  return [
    ...(isObeyed ? [] : ['keep_alive']),
    ...ignoredIn(schema, body),
    ...ignoredWindow(request.options, 'options.'),
  ];
}

const ZERO_DURATION = /^-?0+(\.0*)?[a-zµ]*$/;

/** Whether a request asks for its model to be unloaded. */
export function asksToUnload({ keep_alive }: { readonly keep_alive?: unknown }): boolean {
  return keep_alive === 0 || (typeof keep_alive === 'string' && ZERO_DURATION.test(keep_alive));
}
