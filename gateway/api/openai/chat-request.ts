import * as z from 'zod';
import { codec } from '../body.ts';
import {
  budgetFields,
  checkMinTokens,
  checkThinking,
  effort,
  paramsByEffort,
  type ReasoningParams,
  thinkingParamsOf,
} from '../call-fields.ts';
import { chatMessages, checkTemplateFields, renderOptions, templateFields } from '../conversation.ts';
import * as fields from '../fields.ts';
import { ignoredFields, refuseIgnored } from '../fields.ts';
import { checkTools, toolFields, toolParamsOf } from '../tools.ts';
import { chatFormat } from './choices.ts';
import { completionEncoding } from './completion.ts';
import { chatIgnored, checkShared, ignoredOptions, sharedCall, sharedFields } from './fields.ts';

const thinkingFields = {
  reasoning_effort: effort.optional(),
  /** Qwen's switch. */
  enable_thinking: z.boolean().optional(),
  /** llama-server's. */
  reasoning_format: z
    .enum(['none', 'auto', 'deepseek'])
    .default('auto')
    .transform((format) => (format === 'none' ? 'none' : 'auto')),
  ...budgetFields,
};

type ThinkingFields = z.output<z.ZodObject<typeof thinkingFields>> & {
  readonly chat_template_kwargs: Readonly<Record<string, unknown>>;
};

function reasoningParams(request: ThinkingFields): ReasoningParams {
  const { reasoning_effort: wanted, enable_thinking: isOn, chat_template_kwargs: kwargs } = request;
  const said = kwargs.enable_thinking ?? kwargs.thinking;
  const byEffort = paramsByEffort('reasoning_effort', wanted, request, [
    ['enable_thinking', isOn],
    ['chat_template_kwargs', typeof said === 'boolean' ? said : undefined],
  ]);
  if (isOn === undefined) return byEffort;
  if (isOn) return { ...byEffort, needing: 'enable_thinking' };
  return { ...byEffort, hints: [...(byEffort.hints ?? []), 'enable_thinking'] };
}

const MAX_TOP_LOGPROBS = 20;

const body = z
  .strictObject({
    ...sharedFields,
    messages: chatMessages,
    max_completion_tokens: fields.maxTokens('max_completion_tokens'),
    max_tokens: fields.maxTokens('max_tokens'),
    logprobs: z.boolean().default(false),
    top_logprobs: fields.integer('top_logprobs', 0, MAX_TOP_LOGPROBS).default(0),
    ...toolFields,
    ...templateFields,
    ...thinkingFields,
    ...ignoredFields(chatIgnored),
  })
  .superRefine((request, ctx) => {
    const { logprobs, top_logprobs, max_completion_tokens } = request;
    refuseIgnored(ctx, !logprobs && top_logprobs > 0, 'top_logprobs', 'needs logprobs to be true');
    checkShared(ctx, request);
    checkTemplateFields(ctx, request);
    checkThinking(ctx, reasoningParams(request));
    const isLimited = request.allowed_token_ids.length > 0;
    checkTools(ctx, request, [
      ...(isLimited ? ['allowed_token_ids'] : []),
      ...(logprobs ? ['logprobs'] : []),
    ]);
    const value = leastOf(request);
    const name = value === max_completion_tokens ? 'max_completion_tokens' : 'max_tokens';
    checkMinTokens(ctx, request.min_tokens, { name, value });
  });

/** Both names of one limit may be sent, and then both limits hold. */
function leastOf({
  max_tokens: one = Number.POSITIVE_INFINITY,
  max_completion_tokens: other = Number.POSITIVE_INFINITY,
}: {
  readonly max_tokens?: number | undefined;
  readonly max_completion_tokens?: number | undefined;
}): number | undefined {
  const least = Math.min(one, other);
  return Number.isFinite(least) ? least : undefined;
}

/** POST /v1/chat/completions. */
export const chat = codec(
  body,
  (request) => ({
    call: {
      ...sharedCall(request),
      input: { field: 'messages', messages: request.messages, template: renderOptions(request) },
      tools: toolParamsOf(request),
      thinking: thinkingParamsOf(reasoningParams(request)),
      maxTokens: leastOf(request),
      report: {
        topLogprobs: request.logprobs ? request.top_logprobs : undefined,
        timings: request.timings,
        thinkingInText: request.reasoning_format === 'none',
      },
    },
    encoding: completionEncoding(request, chatFormat),
  }),
  ignoredOptions,
);
