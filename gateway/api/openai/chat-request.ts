import * as z from 'zod';
import * as fields from '../fields.ts';
import { inert } from '../inert.ts';
import { memberOf } from '../json-values.ts';
import { checkMinTokens } from '../token-constraints.ts';
import { chatMessages, ignoredInMessages } from './chat-message.ts';
import { checkGrammar, verbatimSchemas } from './grammar-fields.ts';
import { chatInert } from './inert-fields.ts';
import { checkPenalties, ignoredByBoth, maxTokens, refuseIgnored, sharedFields } from './shared-fields.ts';
import { checkTemplateFields, templateFields, verbatimKwargs } from './template-fields.ts';
import { checkThinking, saidOfThinking, thinkingFields } from './thinking-fields.ts';
import { checkToolFields, ignoredInTools, toolFields, verbatimTools } from './tool-fields.ts';

const MAX_TOP_LOGPROBS = 20;

/** The fields of POST /v1/chat/completions. */
export const chatFields = {
  ...sharedFields,
  messages: chatMessages,
  max_completion_tokens: maxTokens('max_completion_tokens'),
  max_tokens: maxTokens('max_tokens'),
  logprobs: z.boolean().default(false),
  top_logprobs: fields.integer('top_logprobs', 0, MAX_TOP_LOGPROBS).default(0),
  ...toolFields,
  ...templateFields,
  ...thinkingFields,
  ...inert(chatInert),
};

const schema = z.strictObject(chatFields).superRefine((request, ctx) => {
  const { logprobs, top_logprobs, max_tokens, max_completion_tokens } = request;
  refuseIgnored(ctx, !logprobs && top_logprobs > 0, 'top_logprobs', 'needs logprobs to be true');
  checkGrammar(ctx, request);
  checkPenalties(ctx, request);
  checkTemplateFields(ctx, request);
  checkThinking(ctx, saidOfThinking(request));
  const isLimited = request.allowed_token_ids.length > 0;
  checkToolFields(ctx, request, [
    ...(isLimited ? ['allowed_token_ids'] : []),
    ...(logprobs ? ['logprobs'] : []),
  ]);
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

/** The body of POST /v1/chat/completions, checked and with its defaults. */
export type ChatRequest = z.output<typeof schema>;

/** Throws a 400 whose `param` is the first field at fault and whose message names all of them. */
export function parseChatRequest(body: unknown): ChatRequest {
  return fields.parseBody(schema, body, [...verbatimSchemas, ...verbatimTools, verbatimKwargs]);
}

/** Names the fields that were sent and ignored, each once. */
export function ignoredByChat(body: unknown, request: ChatRequest): string[] {
  return [
    ...ignoredByBoth(chatInert, body, request),
    ...new Set(ignoredInMessages(memberOf(body, 'messages'))),
    ...new Set(ignoredInTools(memberOf(body, 'tools'))),
  ];
}
