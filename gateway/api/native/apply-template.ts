import type { Handler } from 'hono';
import * as z from 'zod';
import { renderChatText } from '../../calls/prompt.ts';
import { requireToolTemplate } from '../../calls/tool-offer.ts';
import { readModel } from '../../calls/use-model.ts';
import { sharerOf } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { parseBody } from '../body.ts';
import { chatMessages, checkTemplateFields, renderOptions, templateFields } from '../chat-message.ts';
import { readJson } from '../json.ts';
import { longAnswer, PIECE_CHARACTERS } from '../long-answer.ts';
import { toolFields } from '../tools.ts';

export const applyTemplateFields = {
  messages: chatMessages,
  model: z.string().optional(),
  tools: toolFields.tools,
  ...templateFields,
};

const schema = z
  .strictObject(applyTemplateFields)
  .superRefine((request, ctx) => checkTemplateFields(ctx, request));

/** Renders a conversation to the prompt that a chat makes of it, in llama-server's form. Works while no runner is up. */
export function applyTemplate(deps: RouteDeps): Handler {
  return async (c) => {
    const request = parseBody(schema, await readJson(c));
    const model = await readModel(request.model, deps);
    if (request.tools.length > 0) requireToolTemplate(model, 'tools');
    const tools = request.tools.map(({ definition }) => definition);
    const options = { ...renderOptions(request), tools, signal: c.req.raw.signal, caller: sharerOf(c) };
    const prompt = await renderChatText(model, request.messages, options);
    return longAnswer(c, deps.answerBudget, 2 * prompt.length, promptJson(prompt));
  };
}

/**
 * Makes the answer's JSON in pieces. A cut may split a surrogate pair: each half becomes an escape, and readers join
 * them.
 */
function* promptJson(prompt: string): Generator<string> {
  let json = '{"prompt":"';
  for (let at = 0; at < prompt.length; at += PIECE_CHARACTERS) {
    if (at > 0) {
      yield json;
      json = '';
    }
    json += JSON.stringify(prompt.slice(at, at + PIECE_CHARACTERS)).slice(1, -1);
  }
  yield `${json}"}`;
}
