import { Hono } from 'hono';
import type { Model } from '../../models/model.ts';
import { senderOf } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { tellIgnored } from '../inert.ts';
import { readJson } from '../json.ts';
import { maxTokensWithin, tokensLeft } from '../prompt.ts';
import { askedBehind, ignoredHints, renderThinking } from '../thinking.ts';
import { requireKnownBiases, stopIdsOf } from '../token-ids.ts';
import { offerTools, type ToolOffer } from '../tool-offer.ts';
import { useModel } from '../use-model.ts';
import { answerCompletion, modelWish } from './answer-completion.ts';
import { callIds, chatFormat } from './chat-format.ts';
import { type ChatRequest, ignoredByChat, parseChatRequest } from './chat-request.ts';
import { generateRequests } from './generate-requests.ts';
import { grammarOf, type Structure, structureBy, structureOf } from './grammar-fields.ts';
import { renderOptions } from './template-fields.ts';
import { saidOfThinking, thinkingWishOf } from './thinking-fields.ts';
import { toolWishOf } from './tool-fields.ts';

/** OpenAI's chat completions, whole and streamed. */
export function chatRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/v1/chat/completions', async (c) => {
    const body = await readJson(c);
    const request = parseChatRequest(body);
    tellIgnored(c, deps.log, ignoredByChat(body, request));
    return useModel(c, deps, modelWish(request), async ({ model, info, runner, api }) => {
      requireKnownBiases(request.logit_bias, info.vocabSize);
      const stopIds = stopIdsOf(request, model, info.vocabSize);
      const wish = toolWishOf(request);
      const offer = wish && offerTools(wish, model, grammarOf(request));
      const structure = await chatStructureOf(request, offer, model, stopIds);
      const thinkingWish = thinkingWishOf(saidOfThinking(request));
      tellIgnored(c, deps.log, ignoredHints(model, thinkingWish));
      const options = renderOptions(request, offer?.definitions);
      const prompt = await renderThinking(model, info, request.messages, options, thinkingWish);
      const { promptIds } = prompt;
      const left = tokensLeft(promptIds, info, 'messages');
      const maxTokens = request.max_completion_tokens ?? request.max_tokens ?? left;
      const requests = generateRequests(request, request.seed ?? deps.ids.seed(), {
        promptIds,
        modelIdentity: info.modelIdentity,
        maxTokens: maxTokensWithin(left, info, request.min_tokens, maxTokens),
        minTokens: request.min_tokens,
        stopIds,
        ...senderOf(c),
        api,
        ...askedBehind(structure, prompt, thinkingWish, model),
        ...(request.logprobs ? { topLogprobs: request.top_logprobs } : {}),
      });
      const unique = deps.ids.uuid();
      return answerCompletion(c, deps, {
        runner,
        id: `chatcmpl-${unique}`,
        model,
        numericsId: info.numericsId,
        shape: chatFormat(model.tokenizer, callIds(unique)),
        numPromptTokens: promptIds.length,
        requests,
        request,
        thinking: request.reasoning_format === 'none' ? undefined : prompt.thinking,
        toolCalls: offer?.calls,
      });
    });
  });

  return app;
}

/**
 * The grammar of the answer: the one of the tools if they may be called or the request has no grammar of its own, else
 * the request's own.
 */
async function chatStructureOf(
  request: ChatRequest,
  offer: ToolOffer | undefined,
  model: Model,
  stopIds: readonly number[],
): Promise<Structure> {
  const isOwn = offer === undefined || (offer.calls === undefined && grammarOf(request) !== undefined);
  if (isOwn) return structureOf(request, model, stopIds);
  return structureBy('tools', offer.grammar, model, stopIds);
}
