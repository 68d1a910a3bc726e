import { Hono } from 'hono';
import type { Model } from '../../models/model.ts';
import type { ChatMessage } from '../../prompt/chat-template.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { tellIgnored } from '../inert.ts';
import { readJsonText } from '../json.ts';
import { structureBy } from '../openai/grammar-fields.ts';
import { type ContextLimit, encodePrompt } from '../prompt.ts';
import { askedBehind, renderThinking, requireNothing, type ThinkingPrompt } from '../thinking.ts';
import { answer, type Question } from './answer.ts';
import {
  type GenerateRequestBody,
  generateInert,
  ignoredByOllama,
  parseGenerateRequest,
  thinkingWishOf,
} from './requests.ts';

/**
 * Ollama's generate: one prompt. If the model has a template and the request is not raw, the prompt is the user's message
 * of a conversation.
 */
export function generateRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/api/generate', async (c) => {
    const body = await readJsonText(c);
    const request = parseGenerateRequest(body);
    tellIgnored(c, deps.log, ignoredByOllama(generateInert, body, deps.isUnloadAllowed, request.options));
    const { signal } = c.req.raw;
    return answer(c, deps, request, {
      field: 'prompt',
      textAs: (response, _calls, thinking) => ({ response, ...(thinking === undefined ? {} : { thinking }) }),
      ask: request.prompt === '' ? undefined : (model, limit) => questionOf(request, model, limit, signal),
    });
  });

  return app;
}

async function questionOf(
  request: GenerateRequestBody,
  model: Model,
  limit: ContextLimit,
  signal: AbortSignal,
): Promise<Question> {
  const { format } = request;
  const structure = format && (await structureBy('format', format, model, model.stopIds));
  const prompt = await promptOf(request, model, limit, signal);
  return { ...prompt, asked: askedBehind(structure ?? {}, prompt, thinkingWishOf(request), model) };
}

async function promptOf(
  request: GenerateRequestBody,
  model: Model,
  limit: ContextLimit,
  signal: AbortSignal,
): Promise<ThinkingPrompt> {
  const { prompt, system, raw } = request;
  const isPlain = raw || (model.chatTemplate === undefined && system === '');
  const wish = thinkingWishOf(request);
  if (isPlain) {
    requireNothing(model, wish);
    return { promptIds: await encodePrompt(prompt, model, limit, 'prompt', signal) };
  }
  const first: ChatMessage[] = system === '' ? [] : [{ role: 'system', content: system }];
  const messages = [...first, { role: 'user', content: prompt } as const];
  return renderThinking(model, limit, messages, { signal }, wish);
}
