import { Hono } from 'hono';
import type { RouteDeps } from '../../server/route-group.ts';
import { renderChat } from '../chat-prompt.ts';
import { tellIgnored } from '../inert.ts';
import { readJsonText } from '../json.ts';
import { answer } from './answer.ts';
import { chatInert, ignoredByOllama, parseChatRequest } from './requests.ts';

/** Ollama's chat: a conversation in, the next message of it out. */
export function chatRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/api/chat', async (c) => {
    // Of any media type: Ollama's own examples say none.
    const body = await readJsonText(c);
    const request = parseChatRequest(body);
    tellIgnored(c, deps.log, ignoredByOllama(chatInert, body, deps.models.isOnDemand));
    const { messages } = request;
    return answer(c, deps, request, {
      field: 'messages',
      textAs: (content) => ({ message: { role: 'assistant', content } }),
      promptIds: messages.length === 0 ? undefined : (model, limit) => renderChat(model, limit, messages),
    });
  });

  return app;
}
