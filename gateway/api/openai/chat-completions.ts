import { Hono } from 'hono';
import type { ChatMessage } from '../../prompt/chat-template.ts';
import { cacheSalt } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { renderChat } from '../chat-prompt.ts';
import { tellIgnored } from '../inert.ts';
import { readJson } from '../json.ts';
import { maxTokensWithin, tokensLeft } from '../prompt.ts';
import { randomSeed, requireKnownBiases, stopIdsOf } from '../token-ids.ts';
import { useModel } from '../use-model.ts';
import { answerCompletion, modelWish } from './answer-completion.ts';
import { chatFormat } from './chat-format.ts';
import { ignoredByChat, parseChatRequest } from './chat-request.ts';
import { generateRequests } from './generate-requests.ts';
import { structureOf } from './grammar-fields.ts';

/** OpenAI's chat completions, whole and streamed. */
export function chatRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/v1/chat/completions', async (c) => {
    const body = await readJson(c);
    const request = parseChatRequest(body);
    tellIgnored(c, deps.log, ignoredByChat(body, request));
    return useModel(c, deps, modelWish(request), async ({ model, info, runner }) => {
      requireKnownBiases(request.logit_bias, info.vocabSize);
      const stopIds = stopIdsOf(request, model, info.vocabSize);
      const structure = await structureOf(request, model, stopIds);
      const messages = request.messages.map(({ role, content }): ChatMessage => {
        return { role: role === 'developer' ? 'system' : role, content };
      });
      const promptIds = await renderChat(model, info, messages);
      const left = tokensLeft(promptIds, info, 'messages');
      const maxTokens = request.max_completion_tokens ?? request.max_tokens ?? left;
      const requests = generateRequests(request, request.seed ?? randomSeed(), {
        promptIds,
        modelIdentity: info.modelIdentity,
        maxTokens: maxTokensWithin(left, info, request.min_tokens, maxTokens),
        minTokens: request.min_tokens,
        stopIds,
        cacheSalt: cacheSalt(c),
        ...structure,
        ...(request.logprobs ? { topLogprobs: request.top_logprobs } : {}),
      });
      return answerCompletion(c, deps, {
        runner,
        idPrefix: 'chatcmpl-',
        model,
        shape: chatFormat(model.tokenizer),
        numPromptTokens: promptIds.length,
        requests,
        request,
      });
    });
  });

  return app;
}
