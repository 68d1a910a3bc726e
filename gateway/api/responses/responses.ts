import { Hono } from 'hono';
import { PartialAnswers, type TextSink, TextStream } from '../../generation/text-stream.ts';
import type { Thinking } from '../../generation/thinking-parser.ts';
import { type GenerateRequest, neutralSampling } from '../../runner/runner.ts';
import { senderOf } from '../../server/guard/caller.ts';
import { failureLog } from '../../server/request-log.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { eventStream } from '../../server/streams/sse.ts';
import type { Ids } from '../../system/ids.ts';
import { answerStructure } from '../answer-structure.ts';
import { idempotencyOf } from '../idempotency.ts';
import { tellIgnored } from '../inert.ts';
import { JSON_TYPE, readJson } from '../json.ts';
import { requireJobs } from '../kept-jobs.ts';
import { thinkingWishOf } from '../openai/thinking-fields.ts';
import { tokensLeft } from '../prompt.ts';
import { askedBehind, ignoredHints, renderThinking, type ThinkingWish } from '../thinking.ts';
import { offerTools, type ToolOffer } from '../tool-offer.ts';
import { type UsableModel, useModel } from '../use-model.ts';
import { whileWanted } from '../whole-text.ts';
import { beginBackground, responseOfTwin } from './background.ts';
import { errorEvent } from './event-writer.ts';
import { saidOfThinking } from './reasoning-field.ts';
import { ignoredByResponses, messagesOf, parseResponsesRequest, type ResponsesRequest } from './request.ts';
import { ResponseObject } from './response.ts';
import { ResponseEvents } from './response-events.ts';
import { toolWishOf } from './tool-fields.ts';
import { WholeResponse } from './whole-response.ts';

/** OpenAI's responses, whole and streamed. The journal keeps those that continue in the background. */
export function responseRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/v1/responses', async (c) => {
    const body = await readJson(c);
    const request = parseResponsesRequest(body);
    tellIgnored(c, deps.log, ignoredByResponses(body));
    const wish = { name: request.model, ...(request.stream ? { failureEvent: errorEvent } : {}) };
    if (request.background) requireJobs(deps, 'background');
    const idempotency = idempotencyOf(c, body, 'background', request.background);
    const twin = idempotency && (await responseOfTwin(c, deps, request, idempotency));
    if (twin !== undefined) return twin;
    return useModel(c, deps, wish, async (usable) => {
      const { tokenizer } = usable.model;
      const wish = toolWishOf(request);
      const offer = wish && offerTools(wish, usable.model, request.text.grammar);
      const thinkingWish = thinkingWishOf(saidOfThinking(request));
      tellIgnored(c, deps.log, ignoredHints(usable.model, thinkingWish));
      const { generate, thinking } = await generateRequest(request, offer, thinkingWish, usable, {
        sender: senderOf(c),
        ids: deps.ids,
      });
      if (request.background)
        return beginBackground(c, deps, body, { request, generate, thinking, idempotency }, usable);
      const partial = new PartialAnswers();
      const options = { tokenizer, stop: [], minTokens: 0, thinking, toolCalls: offer?.calls, partial };
      const begin = (sink: TextSink) => new TextStream(usable.runner, generate, options, sink);
      const response = new ResponseObject({
        request,
        tokenizer,
        numPromptTokens: generate.promptIds.length,
        beginsWithText: offer?.calls === undefined && thinking === undefined,
        now: deps.now,
        ...{ uuid: deps.ids.uuid(), createdMs: deps.now(), isKept: false },
      });
      if (!request.stream) {
        const whole = new WholeResponse();
        const ending = await whileWanted(c.req.raw.signal, begin(whole), whole);
        return c.body(response.ended(ending), 200, { 'content-type': JSON_TYPE });
      }
      const stream = eventStream(c);
      const onError = failureLog(deps.log, c);
      return stream.respond(begin(new ResponseEvents(response, { tokenizer, onError }, stream)));
    });
  });

  return app;
}

/** The request to the runner, and how its answer thinks. Throws a 400 if the model cannot do what is asked. */
async function generateRequest(
  request: ResponsesRequest,
  offer: ToolOffer | undefined,
  wish: ThinkingWish,
  { model, info, api }: UsableModel,
  { sender, ids }: { readonly sender: ReturnType<typeof senderOf>; readonly ids: Ids },
): Promise<{ readonly generate: GenerateRequest; readonly thinking: Thinking | undefined }> {
  const structure = await answerStructure('text.format', request.text.grammar, offer, model);
  const told = { tools: offer?.definitions };
  const prompt = await renderThinking(model, info, messagesOf(request), told, wish, 'input');
  const { promptIds, thinking } = prompt;
  const left = tokensLeft(promptIds, info, 'input');
  const generate = {
    promptIds,
    modelIdentity: info.modelIdentity,
    maxTokens: Math.min(request.max_output_tokens ?? left, left),
    minTokens: 0,
    stopIds: model.stopIds,
    sampling: {
      ...neutralSampling,
      temperature: request.temperature,
      topP: request.top_p,
      seed: request.seed ?? ids.seed(),
    },
    ...sender,
    api,
    ...askedBehind(structure, prompt, wish, model),
    ...(request.include.logprobs ? { topLogprobs: request.top_logprobs } : {}),
  };
  return { generate, thinking };
}
