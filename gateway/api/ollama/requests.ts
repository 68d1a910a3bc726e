import * as z from 'zod';
import type { Call, ParsedCall } from '../../calls/call.ts';
import { isJsonObject, memberOf } from '../../json/json-values.ts';
import type { ChatMessage, ToolCall } from '../../prompt/chat-template.ts';
import type { Grammar } from '../../runner/runner.ts';
import { ignoredIn, parseBody } from '../body.ts';
import {
  budget,
  checkThinking,
  checkWindow,
  durable,
  ignoredWindow,
  penaltyFields,
  type ReasoningParams,
  receipt,
  samplingFields,
  samplingOf,
  thinkingParamsOf,
} from '../call-fields.ts';
import {
  chatMessage,
  checkLast,
  continuing,
  MAX_MESSAGES,
  refuseSpeaker,
  TOO_MANY_MESSAGES,
} from '../conversation.ts';
import * as fields from '../fields.ts';
import { ANYTHING, ignoredFields, MAX_TOKENS, NO, NO_ITEMS, ONE, refuseIgnored, ZERO } from '../fields.ts';
import { JSON_OBJECT, schemaGrammar } from '../schema-grammar.ts';
import { calledWith, toolFields, toolName } from '../tools.ts';
import { answerEncoding, type Form } from './answers.ts';

/** Bodies of POST /api/chat and /api/generate. Each field is obeyed, refused by name, or has no effect. */

const toolCall = z.object({
  id: z.string().optional(),
  type: z.literal('function').optional(),
  function: z.object({ name: toolName, arguments: calledWith, ...ignoredFields({ index: ANYTHING }) }),
});

const message = z
  .object({
    role: z.enum(['system', 'user', 'assistant', 'tool']),
    content: z.string().optional(),
    tool_calls: z.array(toolCall).optional(),
    tool_call_id: z.string().optional(),
    tool_name: z.string().optional(),
    thinking: z.string().optional(),
    ...ignoredFields({ images: NO_ITEMS }),
  })
  .superRefine(({ role, content, tool_calls = [], tool_call_id, tool_name, thinking = '' }, ctx) => {
    if (content === undefined && role !== 'assistant') fields.refuseMissing(ctx, ['content']);
    if (role !== 'assistant' && tool_calls.length > 0) refuseSpeaker(ctx, 'assistant', ['tool_calls']);
    if (role !== 'assistant' && thinking !== '') refuseSpeaker(ctx, 'assistant', ['thinking']);
    if (role !== 'tool' && tool_name !== undefined) refuseSpeaker(ctx, 'tool', ['tool_name']);
    if (role !== 'tool' && tool_call_id !== undefined) refuseSpeaker(ctx, 'tool', ['tool_call_id']);
  });

type Message = z.output<typeof message>;

const conversation = z
  .array(message)
  .max(MAX_MESSAGES, TOO_MANY_MESSAGES)
  .transform(conversationOf)
  .superRefine(checkLast)
  .default([]);

/**
 * A call without an id gets one from its index among the calls without ids. A result answers the first call that matches
 * its id and name and has no result yet.
 */
function conversationOf(messages: readonly Message[], ctx: fields.Context): ChatMessage[] {
  let numCalls = 0;
  const open: ToolCall[] = [];
  return messages.map((each, index): ChatMessage => {
    const { role, content = '', tool_calls = [], thinking } = each;
    if (role === 'tool') return { role, content, answers: answered(open, each, ctx, index) };
    const calls = tool_calls.map(({ id, function: { name, arguments: given } }): ToolCall => {
      return { id: id ?? `call_${numCalls++}`, name, arguments: given };
    });
    open.push(...calls);
    return chatMessage(role, content, thinking, calls);
  });
}

/** Finds the call that a result answers, and takes it out of the open ones. */
function answered(
  open: ToolCall[],
  { tool_call_id: id, tool_name: name }: Message,
  ctx: fields.Context,
  index: number,
): Pick<ToolCall, 'id' | 'name'> {
  const at = open.findIndex(
    (call) => (id === undefined || call.id === id) && (name === undefined || call.name === name),
  );
  const [call] = at < 0 ? [] : open.splice(at, 1);
  if (call !== undefined) return { id: call.id, name: call.name };
  const field = id === undefined ? (name === undefined ? 'role' : 'tool_name') : 'tool_call_id';
  const sentence = 'matches no earlier tool call that still lacks a result';
  fields.violated(ctx, 'known', sentence, [index, field]);
  return { id: '', name: '' };
}

/** Values of num_predict for "limited by the context alone". */
const UNLIMITED: readonly number[] = [-1, -2];
/** The value of seed for a random one. */
const ANY_SEED = -1;

export const options = z
  .strictObject({
    ...samplingFields({ temperature: 0.8, top_k: 40, top_p: 0.9 }),
    min_p: fields.float('min_p', 0, 1).default(0),
    ...penaltyFields,
    seed: z.preprocess((value) => (value === ANY_SEED ? undefined : value), fields.seed('seed').optional()),
    num_ctx: fields.integer('num_ctx', 1, MAX_TOKENS).optional(),
    num_predict: fields.maxTokens('num_predict', 1, UNLIMITED),
    /** Not Ollama's, which has none: vLLM's. */
    thinking_token_budget: budget('thinking_token_budget'),
    stop: fields.oneOrMany(fields.stopSequences('stop')).default([]),
    ...ignoredFields({
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
  })
  .superRefine((request, ctx) => checkWindow(ctx, request))
  .prefault({})
  .meta({ title: 'OllamaOptions' });

const sharedIgnored = {
  // Prompts are never cut, and tokens are never shifted out of a context: what is too long is a 400, whatever these say.
  shift: ANYTHING,
  truncate: ANYTHING,
} as const;

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
    fields.violated(ctx, 'type', 'format must be "json", or a JSON Schema, an object');
    return z.NEVER;
  })
  .meta({ type: ['string', 'object'] })
  .optional();

const MAX_TOP_LOGPROBS = 20;

const sharedFields = {
  model: fields.nonEmpty('model'),
  stream: z.boolean().default(true),
  durable,
  receipt,
  keep_alive: keepAlive,
  format,
  logprobs: z.boolean().default(false),
  top_logprobs: fields.integer('top_logprobs', 0, MAX_TOP_LOGPROBS).default(0),
  options,
  think: z
    .union([z.boolean(), z.enum(['low', 'medium', 'high'])], 'must be true, false, "low", "medium" or "high"')
    .optional(),
};

export const chatBody = z
  .strictObject({
    ...sharedFields,
    messages: conversation,
    tools: toolFields.tools,
    ...ignoredFields(sharedIgnored),
  })
  .superRefine((request, ctx) => {
    checkThinking(ctx, reasoningParams(request));
    checkLogprobs(ctx, request);
    if (request.logprobs && request.tools.length > 0)
      fields.violated(ctx, 'exclusive', 'logprobs and tools exclude each other; send one of them', [
        'logprobs',
      ]);
    checkReceipt(ctx, request, request.messages.length === 0);
  });

export const generateBody = z
  .strictObject({
    ...sharedFields,
    prompt: z.string().default(''),
    system: z.string().default(''),
    raw: z.boolean().default(false),
    suffix: z.string().default(''),
    ...ignoredFields({
      ...sharedIgnored,
      context: NO_ITEMS,
      images: NO_ITEMS,
      template: [''],
    }),
  })
  .superRefine((request, ctx) => {
    const said = reasoningParams(request);
    checkThinking(ctx, said);
    checkLogprobs(ctx, request);
    checkReceipt(ctx, request, request.prompt === '' && request.suffix === '');
    const alone = request.raw ? 'raw' : request.suffix === '' ? undefined : 'suffix';
    if (alone === undefined) return;
    const { field } = thinkingParamsOf(said);
    for (const name of [field, request.system === '' ? undefined : 'system']) {
      const message = `${name} cannot be used with ${alone}: the model then reads the prompt alone`;
      if (name !== undefined) fields.violated(ctx, 'exclusive', message, name.split('.'));
    }
  });

type SharedFields = z.output<z.ZodObject<typeof sharedFields>>;

function checkLogprobs(ctx: fields.Context, { logprobs, top_logprobs }: SharedFields): void {
  refuseIgnored(ctx, !logprobs && top_logprobs > 0, 'top_logprobs', 'needs logprobs to be true');
}

function checkReceipt(ctx: fields.Context, request: SharedFields, isEmpty: boolean): void {
  const isInVain = isEmpty && request.receipt !== undefined;
  refuseIgnored(ctx, isInVain, 'receipt', 'needs a prompt: loading a model is no answer');
}

/** Without `think` and a budget, models think as their templates have it. */
function reasoningParams({ think, options: { thinking_token_budget } }: SharedFields): ReasoningParams {
  const isOn = think === undefined ? undefined : think !== false;
  return {
    switches: [['think', isOn]],
    ...(isOn ? { needing: 'think' } : {}),
    ...(typeof think === 'string' ? { effort: think } : {}),
    budgets: [['options.thinking_token_budget', thinking_token_budget]],
  };
}

export interface Asked extends Pick<ParsedCall, 'call' | 'encoding'> {
  readonly form: Form;
  /** Whether there is no prompt: the model is to be loaded, and nothing else. */
  readonly isEmpty: boolean;
  readonly isLast: boolean;
  /** Names the fields that were sent and are ignored. isUnloadAllowed: whether clients may have models unloaded. */
  readonly ignored: (isUnloadAllowed: boolean | undefined) => string[];
}

/** Throws a 400 whose message names every field at fault. */
export function parseChat(body: unknown): Asked {
  const request = parseBody(chatBody, body);
  const { messages, tools } = request;
  return askedBy(chatBody, body, request, {
    input: { field: 'messages', messages, template: continuing(messages) },
    tools: tools.length === 0 ? undefined : { tools, choice: 'auto', isParallel: true },
    isEmpty: messages.length === 0,
    textAs: (content, calls, thinking) => {
      const called = calls.length === 0 ? {} : { tool_calls: [...calls] };
      return { message: { role: 'assistant', content, ...thought(thinking), ...called } };
    },
  });
}

/** The same. Unless the request is raw or has a suffix, its prompt is the user's message of a conversation, if the model has a template. */
export function parseGenerate(body: unknown): Asked {
  const request = parseBody(generateBody, body);
  const { prompt, suffix, system, raw } = request;
  const first: ChatMessage[] = system === '' ? [] : [{ role: 'system', content: system }];
  const messages = [...first, { role: 'user', content: prompt } as const];
  const withoutTemplate = system === '' ? prompt : undefined;
  return askedBy(generateBody, body, request, {
    input: {
      field: 'prompt',
      ...(raw || suffix !== '' ? { prompts: [prompt], suffix } : { messages, withoutTemplate }),
    },
    tools: undefined,
    isEmpty: prompt === '' && suffix === '',
    textAs: (response, _calls, thinking) => ({ response, ...thought(thinking) }),
  });
}

function thought(thinking: string | undefined): { readonly thinking?: string } {
  return thinking === undefined ? {} : { thinking };
}

type Own = Pick<Call, 'input' | 'tools'> & Pick<Asked, 'isEmpty'> & Pick<Form, 'textAs'>;

function askedBy(
  schema: z.ZodType,
  body: unknown,
  request: SharedFields,
  { input, tools, isEmpty, textAs }: Own,
): Asked {
  const { model, format: grammar, options: asked } = request;
  const form = { model, textAs };
  const call: Call = {
    model,
    isStreamed: request.stream,
    input,
    tools,
    format: grammar && { field: 'format', grammar },
    thinking: thinkingParamsOf(reasoningParams(request)),
    sampling: samplingOf(asked),
    seed: asked.seed,
    maxTokens: asked.num_predict,
    maxContext: asked.num_ctx,
    stop: asked.stop,
    report: { timings: true, topLogprobs: request.logprobs ? request.top_logprobs : undefined },
    durable: request.durable ? 'durable' : undefined,
    receipt: request.receipt,
  };
  return {
    call,
    form,
    encoding: answerEncoding(form),
    isEmpty,
    isLast: asksToUnload(request),
    ignored: (isUnloadAllowed) => {
      const ignored = ignoredByOllama(schema, body, request, isUnloadAllowed);
      return isEmpty ? [...new Set([...ignored, ...unusedFields(body)])] : ignored;
    },
  };
}

/**
 * Names the fields that were sent and ignored. keep_alive is ignored because the operator decides how long models stay, and
 * may allow clients only to have one unloaded.
 */
export function ignoredByOllama(
  schema: z.ZodType,
  body: unknown,
  request: Pick<SharedFields, 'keep_alive' | 'options'>,
  isUnloadAllowed: boolean | undefined,
): string[] {
  const isObeyed = request.keep_alive === undefined || (isUnloadAllowed && asksToUnload(request));
  return [
    ...(isObeyed ? [] : ['keep_alive']),
    ...ignoredIn(schema, body),
    ...ignoredWindow(request.options, 'options.'),
  ];
}

/** Names the options that were sent where no token is drawn, which has a context alone. */
export function unusedOptions(body: unknown): string[] {
  return sentNames(memberOf(body, 'options'))
    .filter((name) => name !== 'num_ctx')
    .map((name) => `options.${name}`);
}

const USED_TO_LOAD = ['model', 'messages', 'prompt', 'suffix', 'stream', 'keep_alive', 'options'];

/** Names the fields that were sent to have a model loaded, and say how it would answer. */
function unusedFields(body: unknown): string[] {
  const names = sentNames(body).filter((name) => !USED_TO_LOAD.includes(name));
  const options = sentNames(memberOf(body, 'options')).map((name) => `options.${name}`);
  return [...names, ...options];
}

function sentNames(value: unknown): string[] {
  if (!isJsonObject(value)) return [];
  return Object.entries(value).flatMap(([name, member]) => (member === null ? [] : [name]));
}

const ZERO_DURATION = /^-?0+(\.0*)?[a-zµ]*$/;

/** Whether a request asks for its model to be unloaded. */
export function asksToUnload({ keep_alive }: { readonly keep_alive?: unknown }): boolean {
  return keep_alive === 0 || (typeof keep_alive === 'string' && ZERO_DURATION.test(keep_alive));
}
