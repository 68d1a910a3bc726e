import * as z from 'zod';
import type { Call, ParsedCall } from '../../calls/call.ts';
import { parseBody } from '../body.ts';
import { chatMessages, checkTemplateFields, renderOptions, templateFields } from '../chat-message.ts';
import { checkDurable } from '../durable-field.ts';
import * as fields from '../fields.ts';
import { inert, refuseIgnored } from '../fields.ts';
import { checkMinTokens } from '../sampling-fields.ts';
import {
  budgetFields,
  checkThinking,
  effort,
  type SaidOfThinking,
  saidBy,
  thinkingWishOf,
} from '../thinking-parts.ts';
import { checkTools, toolFields, toolWishOf } from '../tools.ts';
import { chatFormat } from './choice-formats.ts';
import { completionEncoding } from './completion.ts';
import { checkGrammar } from './grammar-fields.ts';
import { chatInert } from './inert-fields.ts';
import { checkPenalties, completionOf, ignoredByBoth, sharedCall, sharedFields } from './shared-fields.ts';

const thinkingFields = {
  reasoning_effort: effort.optional(),
  /** Qwen's switch. */
  enable_thinking: z.boolean().optional(),
  /** As in llama-server. none: the thinking stays in the text, with its marks. */
  reasoning_format: z
    .enum(['none', 'auto', 'deepseek'])
    .default('auto')
    .transform((format) => (format === 'none' ? 'none' : 'auto')),
  ...budgetFields,
};

type ThinkingFields = z.output<z.ZodObject<typeof thinkingFields>> & {
  readonly chat_template_kwargs: Readonly<Record<string, unknown>>;
};

/** What a chat says about thinking. */
export function saidOfThinking(request: ThinkingFields): SaidOfThinking {
  const { reasoning_effort: wanted, enable_thinking: isOn, chat_template_kwargs: kwargs } = request;
  const said = kwargs.enable_thinking ?? kwargs.thinking;
  const byEffort = saidBy('reasoning_effort', wanted, request, [
    ['enable_thinking', isOn],
    ['chat_template_kwargs', typeof said === 'boolean' ? said : undefined],
  ]);
  if (isOn === undefined) return byEffort;
  if (isOn) return { ...byEffort, needing: 'enable_thinking' };
  return { ...byEffort, hints: [...(byEffort.hints ?? []), 'enable_thinking'] };
}

const MAX_TOP_LOGPROBS = 20;

/** The fields of POST /v1/chat/completions. */
export const chatFields = {
  ...sharedFields,
  messages: chatMessages,
  max_completion_tokens: fields.maxTokens('max_completion_tokens'),
  max_tokens: fields.maxTokens('max_tokens'),
  logprobs: z.boolean().default(false),
  top_logprobs: fields.integer('top_logprobs', 0, MAX_TOP_LOGPROBS).default(0),
  ...toolFields,
  ...templateFields,
  ...thinkingFields,
  ...inert(chatInert),
};

const schema = z.strictObject(chatFields).superRefine((request, ctx) => {
  const { logprobs, top_logprobs, max_tokens, max_completion_tokens, durable, timings, n } = request;
  refuseIgnored(ctx, !logprobs && top_logprobs > 0, 'top_logprobs', 'needs logprobs to be true');
  checkGrammar(ctx, request);
  checkPenalties(ctx, request);
  checkDurable(ctx, { durable, timings, n });
  checkTemplateFields(ctx, request);
  checkThinking(ctx, saidOfThinking(request));
  const isLimited = request.allowed_token_ids.length > 0;
  checkTools(ctx, request, [...(isLimited ? ['allowed_token_ids'] : []), ...(logprobs ? ['logprobs'] : [])]);
  const isSecond = max_completion_tokens !== undefined && max_tokens !== undefined;
  refuseIgnored(
    ctx,
    isSecond && max_tokens !== max_completion_tokens,
    'max_tokens',
    'and max_completion_tokens mean the same; send one of them',
  );
  const name = max_completion_tokens === undefined ? 'max_tokens' : 'max_completion_tokens';
  checkMinTokens(ctx, request.min_tokens, { name, value: max_completion_tokens ?? max_tokens });
});

/** Throws a 400 whose `param` is the first field at fault and whose message names all of them. */
export function parseChat(body: unknown): ParsedCall {
  const request = parseBody(schema, body);
  const { messages, logprobs, top_logprobs, max_completion_tokens, max_tokens } = request;
  const topLogprobs = logprobs ? top_logprobs : undefined;
  const call: Call = {
    ...sharedCall(request),
    input: { field: 'messages', messages, template: renderOptions(request) },
    tools: toolWishOf(request),
    thinking: thinkingWishOf(saidOfThinking(request)),
    maxTokens: max_completion_tokens ?? max_tokens,
    report: {
      topLogprobs,
      timings: request.timings,
      thinkingInText: request.reasoning_format === 'none',
    },
  };
  return {
    call,
    ignored: ignoredByBoth(schema, body, request),
    encoding: completionEncoding(completionOf(request), chatFormat),
  };
}
