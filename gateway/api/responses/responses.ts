import { Hono } from 'hono';
import { answer, prepare } from '../../calls/answer.ts';
import type { Call, Encoding, Facts } from '../../calls/call.ts';
import { useModel } from '../../calls/use-model.ts';
import { tellIgnored } from '../../server/ignored-fields.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { idempotencyOf } from '../idempotency.ts';
import { readJson } from '../json.ts';
import { requireJobs } from '../kept-jobs.ts';
import { thinkingWishOf } from '../thinking-parts.ts';
import { toolWishOf } from '../tools.ts';
import { beginBackground, responseOfTwin } from './background.ts';
import { errorEvent, Output } from './output.ts';
import {
  ignoredByResponses,
  parseResponsesRequest,
  type ResponsesRequest,
  saidOfThinking,
} from './request.ts';
import { endStatus, ResponseObject } from './response.ts';
import { ResponseEvents } from './response-events.ts';

/** OpenAI's responses, whole and streamed. The journal keeps those that continue in the background. */
export function responseRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/v1/responses', async (c) => {
    const body = await readJson(c);
    const request = parseResponsesRequest(body);
    tellIgnored(c, deps.log, ignoredByResponses(body));
    const call = callOf(request);
    if (request.background) requireJobs(deps, 'background');
    const idempotency = idempotencyOf(c, body, 'background', request.background);
    if (!request.background) return answer(c, deps, { call, encoding: encodingOf(request) });
    const twin = idempotency && (await responseOfTwin(c, deps, request, idempotency));
    if (twin !== undefined) return twin;
    const wish = { name: request.model, ...(request.stream ? { failureEvent: errorEvent } : {}) };
    return useModel(c, deps, wish, async (usable) => {
      const {
        requests: [generate],
        thinking,
      } = await prepare(c, deps, call, usable);
      if (generate === undefined) throw new Error('A response has one choice.');
      return beginBackground(c, deps, body, { request, generate, thinking, idempotency }, usable);
    });
  });

  return app;
}

function callOf(request: ResponsesRequest): Call {
  const { model, instructions, input, text, include } = request;
  const { grammar } = text;
  return {
    model,
    isStreamed: request.stream,
    input: {
      field: 'input',
      messages: instructions === undefined ? input : [{ role: 'system', content: instructions }, ...input],
    },
    tools: toolWishOf(request),
    format: grammar && { field: 'text.format', grammar },
    thinking: thinkingWishOf(saidOfThinking(request)),
    sampling: { temperature: request.temperature, topP: request.top_p },
    seed: request.seed,
    maxTokens: request.max_output_tokens,
    stop: [],
    report: { topLogprobs: include.logprobs ? request.top_logprobs : undefined },
  };
}

function encodingOf(request: ResponsesRequest): Encoding {
  const responseOf = (facts: Facts) => new ResponseObject({ ...facts, request, isKept: false });
  return {
    whole: (facts, [choice]) => {
      if (choice === undefined) throw new Error('A response has one choice.');
      const { end, ...text } = choice;
      const response = responseOf(facts);
      const output = new Output(response.itemIds, facts.tokenizer);
      output.add(text, end.numCalls ?? 0);
      output.end(endStatus(end));
      return response.ended(output.items(endStatus(end)), end);
    },
    stream: (facts, outlet) => new ResponseEvents(responseOf(facts), facts, outlet),
    failureEvent: errorEvent,
  };
}
