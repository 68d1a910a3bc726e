import { randomUUID } from 'node:crypto';
import { Hono } from 'hono';
import { ApiError } from '../api/error.ts';
import { readJson } from '../api/json.ts';
import { parseChatRequest } from '../api/openai/chat-request.ts';
import { type Completion, chatCompletion, chatCompletionEvents } from '../api/openai/chat-response.ts';
import { sseResponse } from '../api/sse.ts';
import type { AppDeps } from '../app.ts';
import { type ChatMessage, ChatTemplateError, PromptTooLongError } from '../chat/chat-template.ts';
import type { Model } from '../model/model.ts';
import type { RunnerInfo } from '../runner/runner.ts';
import { readAnswer } from '../tokenizer/answer.ts';
import { requireModelId } from './models.ts';
import { contextExceeded, requireReady, tokensLeft } from './prompt.ts';
import { randomSeed } from './random-seed.ts';

/** OpenAI's chat completions, whole and streamed. */
export function chatRoutes(deps: AppDeps): Hono {
  const app = new Hono();

  app.post('/v1/chat/completions', async (c) => {
    const request = parseChatRequest(await readJson(c));
    const { model, info } = requireReady(deps);
    requireModelId(request.model, model);
    const messages = request.messages.map(({ role, content }): ChatMessage => {
      return { role: role === 'developer' ? 'system' : role, content };
    });
    const promptIds = await renderChat(model, info, messages);
    const left = tokensLeft(promptIds, info, 'messages');

    const stream = new AbortController();
    const signal = AbortSignal.any([stream.signal, c.req.raw.signal]);
    const batches = deps.runner.generate(
      {
        promptIds,
        maxTokens: Math.min(request.max_completion_tokens ?? request.max_tokens ?? left, left),
        stopIds: model.stopIds,
        sampling: {
          temperature: request.temperature,
          topK: request.top_k,
          topP: request.top_p,
          minP: request.min_p,
          repetitionPenalty: request.repetition_penalty,
          seed: request.seed ?? randomSeed(),
        },
      },
      signal,
    );
    const answer = readAnswer(batches, { tokenizer: model.tokenizer, stop: request.stop });

    const completion: Completion = {
      id: `chatcmpl-${randomUUID()}`,
      created: Math.floor(deps.now() / 1000),
      model: model.id,
      numPromptTokens: promptIds.length,
    };
    if (request.stream) {
      const includeUsage = request.stream_options?.include_usage ?? false;
      const events = chatCompletionEvents(completion, answer, includeUsage);
      return sseResponse(c, events, { onCancel: () => stream.abort(), onEnd: () => {} });
    }
    return c.json(await chatCompletion(completion, answer));
  });

  return app;
}

async function renderChat(
  model: Model,
  info: RunnerInfo,
  messages: readonly ChatMessage[],
): Promise<number[]> {
  if (model.chatTemplate === undefined) {
    const message = `The model "${model.id}" has no chat template; use POST /execute, which takes a plain prompt.`;
    throw new ApiError({ status: 400, code: 'no_chat_template', message, param: 'model' });
  }
  try {
    return await model.chatTemplate.render(messages, info.maxModelLen);
  } catch (error) {
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
