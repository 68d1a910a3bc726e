import { ApiError } from '../errors/api-error.ts';
import type { Model } from '../models/model.ts';
import {
  type ChatMessage,
  type ChatTemplate,
  ChatTemplateError,
  PromptTooLongError,
  type RenderOptions,
} from '../prompt/chat-template.ts';
import { type ContextLimit, contextExceeded } from './prompt.ts';
import { requireToolTemplate } from './tool-offer.ts';

/**
 * Renders a conversation to the ids of its prompt. Throws a 400 on `field` if the model has no template or the template
 * refuses the messages, and UnavailableError if nothing can be rendered now.
 */
export async function renderChat(
  model: Model,
  limit: ContextLimit,
  messages: readonly ChatMessage[],
  options: RenderOptions,
  field: string,
): Promise<number[]> {
  return rendering(model, limit, messages, field, (template) => {
    return template.render(messages, limit.maxModelLen, options);
  });
}

/** Renders the same prompt as text, however long it is. */
export async function renderChatText(
  model: Model,
  messages: readonly ChatMessage[],
  options: RenderOptions,
): Promise<string> {
  const limit = { maxModelLen: Number.POSITIVE_INFINITY };
  return rendering(model, limit, messages, 'messages', (template) => template.renderText(messages, options));
}

async function rendering<Prompt>(
  model: Model,
  limit: ContextLimit,
  messages: readonly ChatMessage[],
  field: string,
  render: (template: ChatTemplate) => Promise<Prompt>,
): Promise<Prompt> {
  const hasCalls = messages.some(
    ({ toolCalls, answers }) => toolCalls !== undefined || answers !== undefined,
  );
  if (hasCalls) requireToolTemplate(model, field);
  if (model.chatTemplate === undefined) {
    const message = `The model "${model.id}" has no chat template; use POST /v1/completions or /execute, which take a plain prompt.`;
    throw new ApiError({ status: 400, code: 'no_chat_template', message, param: 'model' });
  }
  try {
    return await render(model.chatTemplate);
  } catch (error) {
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
