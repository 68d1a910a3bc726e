import { Hono } from 'hono';
import type { RouteDeps } from '../../server/route-group.ts';
import { answerStructure } from '../answer-structure.ts';
import { tellIgnored } from '../inert.ts';
import { readJsonText } from '../json.ts';
import { RawJson } from '../json-text.ts';
import { askedBehind, renderThinking } from '../thinking.ts';
import { offerTools, type ToolWish } from '../tool-offer.ts';
import { answer } from './answer.ts';
import type { WholeCall } from './answer-lines.ts';
import type { ChatMessageText } from './answers.ts';
import { chatInert, ignoredByOllama, parseChatRequest, thinkingWishOf } from './requests.ts';

/** Ollama's chat: a conversation in, its next message out. */
export function chatRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/api/chat', async (c) => {
    // Any media type is accepted: Ollama's own examples send none.
    const body = await readJsonText(c);
    const request = parseChatRequest(body);
    tellIgnored(c, deps.log, ignoredByOllama(chatInert, body, deps.isUnloadAllowed, request.options));
    const { messages, tools, format } = request;
    const wish: ToolWish | undefined =
      tools.length === 0 ? undefined : { tools, choice: 'auto', isParallel: true };
    return answer(c, deps, request, {
      field: 'messages',
      textAs: (content, calls, thinking) => {
        const thought = thinking === undefined ? {} : { thinking };
        return { message: { role: 'assistant', content, ...thought, ...called(calls) } };
      },
      ask:
        messages.length === 0
          ? undefined
          : async (model, limit) => {
              const offer = wish && offerTools(wish, model, format);
              const structure = await answerStructure('format', format, offer, model);
              const thinkingWish = thinkingWishOf(request);
              const told = { tools: offer?.definitions, signal: c.req.raw.signal };
              const prompt = await renderThinking(model, limit, messages, told, thinkingWish);
              const asked = askedBehind(structure, prompt, thinkingWish, model);
              return { ...prompt, asked, toolCalls: offer?.calls };
            },
    });
  });

  return app;
}

/** The member of a message with these calls; nothing without calls. */
function called(calls: readonly WholeCall[]): Pick<ChatMessageText['message'], 'tool_calls'> {
  if (calls.length === 0) return {};
  return {
    tool_calls: calls.map(({ id, index, name, arguments: given }) => {
      return { id, function: { index, name, arguments: new RawJson(given) } };
    }),
  };
}
