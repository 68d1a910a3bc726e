import { type Context, Hono } from 'hono';
import type { ApiError } from '../../errors/api-error.ts';
import { PartialAnswers, type TextSink, TextStream } from '../../generation/text-stream.ts';
import { neutralSampling } from '../../runner/runner.ts';
import { senderOf } from '../../server/guard/caller.ts';
import { failureLog } from '../../server/request-log.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { eventStream, namedEvent } from '../../server/streams/sse.ts';
import { answerStructure } from '../answer-structure.ts';
import { callDigits } from '../call-digits.ts';
import { tellIgnored } from '../inert.ts';
import { JSON_TYPE, readJson } from '../json.ts';
import { jsonText } from '../json-text.ts';
import { tokensLeft } from '../prompt.ts';
import { askedBehind, ignoredHints, renderThinking } from '../thinking.ts';
import { offerTools } from '../tool-offer.ts';
import { type ModelWish, readModel, useModel } from '../use-model.ts';
import { WholeText, whileWanted } from '../whole-text.ts';
import { anthropicErrorBody, requestIdOf } from './errors.ts';
import { type Message, wholeMessage } from './message.ts';
import { MessageEvents } from './message-events.ts';
import {
  ignoredByMessages,
  type MessagesRequest,
  messagesOf,
  parseCountRequest,
  parseMessagesRequest,
} from './messages-request.ts';
import { thinkingWishOf } from './thinking-field.ts';
import { toolWishOf } from './tool-fields.ts';

/** Anthropic's messages, whole and streamed, and the counting of their tokens. */
export function messagesRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/v1/messages', async (c) => {
    const body = await readJson(c);
    const request = parseMessagesRequest(body);
    tellIgnored(c, deps.log, ignoredByMessages(body, request));
    return useModel(c, deps, modelWish(c, request), async ({ model, info, runner, api }) => {
      const wish = toolWishOf(request);
      const { format } = request.output_config;
      const offer = wish && offerTools(wish, model, format);
      const structure = await answerStructure('output_config.format', format, offer, model);
      const thinkingWish = thinkingWishOf(request);
      tellIgnored(c, deps.log, ignoredHints(model, thinkingWish));
      const told = { tools: offer?.definitions };
      const prompt = await renderThinking(model, info, messagesOf(request), told, thinkingWish);
      const { promptIds, thinking } = prompt;
      const generate = {
        promptIds,
        modelIdentity: info.modelIdentity,
        maxTokens: Math.min(request.max_tokens, tokensLeft(promptIds, info, 'messages')),
        minTokens: 0,
        stopIds: model.stopIds,
        sampling: {
          ...neutralSampling,
          temperature: request.temperature,
          topP: request.top_p,
          topK: request.top_k,
          seed: deps.ids.seed(),
        },
        ...senderOf(c),
        api,
        ...askedBehind(structure, prompt, thinkingWish, model),
      };
      const { tokenizer } = model;
      const stop = request.stop_sequences;
      const partial = new PartialAnswers();
      const options = { tokenizer, stop, minTokens: 0, thinking, toolCalls: offer?.calls, partial };
      const begin = (sink: TextSink) => new TextStream(runner, generate, options, sink);
      const unique = deps.ids.uuid();
      const message: Message = {
        id: `msg_${unique}`,
        model: request.model,
        numPromptTokens: promptIds.length,
        maxTokens: Math.min(request.max_tokens, info.maxTokensOut ?? Number.POSITIVE_INFINITY),
        beginsWithText: offer?.calls === undefined && thinking === undefined,
        signature: `sig_${unique}`,
        callId: (call) => `toolu_${callDigits(unique)}_${call}`,
      };
      if (!request.stream) {
        const whole = new WholeText();
        const finished = await whileWanted(c.req.raw.signal, begin(whole), whole);
        return c.body(jsonText(wholeMessage(message, finished)), 200, { 'content-type': JSON_TYPE });
      }
      const stream = eventStream(c);
      const onError = failureLog(deps.log, c);
      return stream.respond(
        begin(new MessageEvents(message, { requestId: requestIdOf(c), onError }, stream)),
      );
    });
  });

  // Needs only the model's files, so it counts while no runner is up, and prompts that are too long for one.
  app.post('/v1/messages/count_tokens', async (c) => {
    const body = await readJson(c);
    const request = parseCountRequest(body);
    tellIgnored(c, deps.log, ignoredByMessages(body, request));
    const model = await readModel(request.model, deps);
    const toolWish = toolWishOf(request);
    const limit = { maxModelLen: Number.POSITIVE_INFINITY };
    const tools = toolWish && offerTools(toolWish, model).definitions;
    const wish = thinkingWishOf(request);
    tellIgnored(c, deps.log, ignoredHints(model, wish));
    const { promptIds } = await renderThinking(model, limit, messagesOf(request), { tools }, wish);
    return c.json({ input_tokens: promptIds.length });
  });

  return app;
}

/** The model that a request names, and how its stream reports a failure before the answer began. */
function modelWish(c: Context, { model, stream }: MessagesRequest): ModelWish {
  const failureEvent = (error: ApiError): string =>
    namedEvent('error', JSON.stringify(anthropicErrorBody(error, requestIdOf(c))));
  return { name: model, ...(stream ? { failureEvent } : {}) };
}
