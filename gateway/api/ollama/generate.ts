import { Hono } from 'hono';
import type { Model } from '../../models/model.ts';
import type { ChatMessage } from '../../prompt/chat-template.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { cooperativeScheduler } from '../../system/cooperative-scheduler.ts';
import { renderChat } from '../chat-prompt.ts';
import { tellIgnored } from '../inert.ts';
import { readJsonText } from '../json.ts';
import { type ContextLimit, encodePrompt } from '../prompt.ts';
import { answer } from './answer.ts';
import {
  type GenerateRequestBody,
  generateInert,
  ignoredByOllama,
  parseGenerateRequest,
} from './requests.ts';

/** Ollama's generate: one prompt, which is a conversation's first message where the model has a template, unless it is raw. */
export function generateRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/api/generate', async (c) => {
    const body = await readJsonText(c);
    const request = parseGenerateRequest(body);
    tellIgnored(c, deps.log, ignoredByOllama(generateInert, body, deps.models.isOnDemand));
    const { signal } = c.req.raw;
    return answer(c, deps, request, {
      field: 'prompt',
      textAs: (response) => ({ response }),
      ask:
        request.prompt === ''
          ? undefined
          : async (model, limit) => ({ promptIds: await promptIds(request, model, limit, signal) }),
    });
  });

  return app;
}

async function promptIds(
  { prompt, system, raw }: GenerateRequestBody,
  model: Model,
  limit: ContextLimit,
  signal: AbortSignal,
): Promise<readonly number[]> {
  const isPlain = raw || (model.chatTemplate === undefined && system === '');
  if (isPlain)
    return cooperativeScheduler.run(prompt.length, encodePrompt(prompt, model, limit, 'prompt'), signal);
  const first: ChatMessage[] = system === '' ? [] : [{ role: 'system', content: system }];
  return renderChat(model, limit, [...first, { role: 'user', content: prompt }]);
}
