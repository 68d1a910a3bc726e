import { ApiError } from '../errors/api-error.ts';
import type { Model } from '../models/model.ts';
import {
  type ChatMessage,
  ChatTemplateError,
  ChatTemplateUnavailableError,
  PromptTooLongError,
  type ToolDefinition,
} from '../prompt/chat-template.ts';
import { type ContextLimit, contextExceeded } from './prompt.ts';
import { requireToolTemplate } from './tool-offer.ts';

/** The ids of a conversation, ready for an answer; a 400 on `field` where the model's template does not make them. */
export async function renderChat(
  model: Model,
  limit: ContextLimit,
  messages: readonly ChatMessage[],
  tools: readonly ToolDefinition[] = [],
  field = 'messages',
): Promise<number[]> {
  const hasCalls = messages.some(
    ({ toolCalls, answers }) => toolCalls !== undefined || answers !== undefined,
  );
  if (hasCalls) requireToolTemplate(model);
  if (model.chatTemplate === undefined) {
    const message = `The model "${model.id}" has no chat template; use POST /v1/completions or /execute, which take a plain prompt.`;
    throw new ApiError({ status: 400, code: 'no_chat_template', message, param: 'model' });
  }
  try {
    return await model.chatTemplate.render(messages, limit.maxModelLen, tools);
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
    if (error instanceof PromptTooLongError) throw contextExceeded(field, error.leastTokens, limit);
    if (!(error instanceof ChatTemplateError)) throw error;
    const message = `The model's chat template refuses these messages: ${error.message}`;
    throw new ApiError({
      status: 400,
      code: 'chat_template_error',
      message,
      param: field,
      cause: error,
    });
  }
}
