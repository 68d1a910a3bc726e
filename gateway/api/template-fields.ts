import * as z from 'zod';
import { jsonText } from '../json/json-text.ts';
import { type ChatMessage, type RenderOptions, reservedVariables } from '../prompt/chat-template.ts';
import { refuseBoth, violated } from './fields.ts';

/**
 * Fields that say how the model's template renders a conversation, named as in vLLM and llama-server. Chats and
 * /apply-template have them.
 */

/** The longest chat_template_kwargs, as JSON. */
const MAX_KWARGS_CHARACTERS = 16_384;

const kwargs = z.record(z.string(), z.unknown()).superRefine((given, ctx) => {
  for (const name of reservedVariables) {
    if (!Object.hasOwn(given, name)) continue;
    const sentence = `chat_template_kwargs must not have ${name}: the template gets that from the request itself`;
    violated(ctx, { constraint: 'exclusive' }, sentence, [name]);
  }
  const numCharacters = jsonText(given).length;
  if (numCharacters <= MAX_KWARGS_CHARACTERS) return;
  const rule = { constraint: `max_length(${MAX_KWARGS_CHARACTERS})`, value: String(numCharacters) };
  const sentence = `chat_template_kwargs must have at most ${MAX_KWARGS_CHARACTERS} characters as JSON (got ${numCharacters})`;
  violated(ctx, rule, sentence);
});

export const templateFields = {
  add_generation_prompt: z.boolean().optional(),
  chat_template_kwargs: kwargs.default({}),
  continue_final_message: z.boolean().default(false),
};

type TemplateFields = z.output<z.ZodObject<typeof templateFields>>;

/** Checks the rules that concern several fields. */
export function checkTemplateFields(
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
  request: TemplateFields & { readonly messages: readonly ChatMessage[] },
): void {
  if (!request.continue_final_message) return;
  const name = 'continue_final_message';
  const last = request.messages.at(-1);
  if (last?.role !== 'assistant' || last.toolCalls !== undefined) {
    const sentence = `${name} needs the last message to have the role "assistant" and no tool calls`;
    violated(ctx, { constraint: 'unsupported' }, sentence, [name]);
  }
  if (request.add_generation_prompt === true) refuseBoth(ctx, name, 'add_generation_prompt');
}

export function renderOptions(request: TemplateFields): Omit<RenderOptions, 'tools'> {
  return {
    variables: request.chat_template_kwargs,
    addsGenerationPrompt: request.add_generation_prompt ?? true,
    continuesLast: request.continue_final_message,
  };
}
