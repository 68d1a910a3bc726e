import { Hono } from 'hono';
import { ApiError } from '../../errors/api-error.ts';
import type { Model } from '../../models/model.ts';
import {
  type ChatMessage,
  ChatTemplateError,
  ChatTemplateUnavailableError,
  PromptTooLongError,
} from '../../prompt/chat-template.ts';
import type { RunnerInfo } from '../../runner/runner.ts';
import type { AppDeps } from '../../server/app.ts';
import { cacheSalt } from '../../server/guard/caller.ts';
import { readJson } from '../json.ts';
import { contextExceeded, maxTokensWithin, tokensLeft } from '../prompt.ts';
import { randomSeed, requireKnownBiases, stopIdsOf } from '../token-ids.ts';
import { useModel } from '../use-model.ts';
import { answerCompletion, modelWish } from './answer-completion.ts';
import { chatFormat } from './chat-format.ts';
import { ignoredByChat, parseChatRequest } from './chat-request.ts';
import { generateRequests } from './generate-requests.ts';
import { structureOf } from './grammar-fields.ts';
import { tellIgnored } from './inert-fields.ts';

/** OpenAI's chat completions, whole and streamed. */
export function chatRoutes(deps: AppDeps): Hono {
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

async function renderChat(
  model: Model,
  info: RunnerInfo,
  messages: readonly ChatMessage[],
): Promise<number[]> {
  if (model.chatTemplate === undefined) {
    const message = `The model "${model.id}" has no chat template; use POST /v1/completions or /execute, which take a plain prompt.`;
    throw new ApiError({ status: 400, code: 'no_chat_template', message, param: 'model' });
  }
  try {
    return await model.chatTemplate.render(messages, info.maxModelLen);
  } catch (error) {
    if (error instanceof ChatTemplateUnavailableError) {
      const { message, retryAfterSec } = error;
      throw new ApiError({
        status: 503,
        code: 'overloaded',
        message,
        retriable: true,
        retryAfterSec,
        cause: error,
      });
    }
    if (error instanceof PromptTooLongError) throw contextExceeded('messages', error.leastTokens, info);
    if (!(error instanceof ChatTemplateError)) throw error;
    const message = `The model's chat template refuses these messages: ${error.message}`;
    throw new ApiError({
      status: 400,
      code: 'chat_template_error',
      message,
      param: 'messages',
      cause: error,
    });
  }
}
