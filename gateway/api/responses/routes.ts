import type { Handler } from 'hono';
import * as z from 'zod';
import { answer, prepare } from '../../calls/answer.ts';
import type { Call, Encoding, Facts } from '../../calls/call.ts';
import { useModel } from '../../calls/use-model.ts';
import { tellIgnored } from '../../server/ignored-fields.ts';
import { json, jsonOrEvents, type Operation, type RouteDeps } from '../../server/route-group.ts';
import { idempotencyOf } from '../idempotency.ts';
import { readJson } from '../json.ts';
import { requireJobs } from '../kept-jobs.ts';
import { missing } from '../route.ts';
import { thinkingWishOf } from '../thinking-parts.ts';
import { toolWishOf } from '../tools.ts';
import { deletedSchema, responseEventSchemas, responseSchema } from './answers.ts';
import { beginBackground, cancelling, deleting, reading, responseOfTwin } from './background.ts';
import { errorEvent, Output } from './output.ts';
import {
  ignoredByResponses,
  parseResponsesRequest,
  type ResponsesRequest,
  responsesFields,
  saidOfThinking,
} from './request.ts';
import { endStatus, ResponseObject } from './response.ts';
import { ResponseEvents } from './response-events.ts';

const NOT_STORED =
  'Inputs of responses are not stored here: the next request sends what was said in its own input.';

const RESPONSE = jsonOrEvents('A response, or events of which the last one has it.', responseSchema, {
  named: responseEventSchemas,
});

export const responseOperations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/responses',
    summary: 'The answer to a text or a conversation, by OpenAI’s newer API',
    handler: responding,
    body: z.strictObject(responsesFields).meta({ required: ['model', 'input'] }),
    answers: { 200: RESPONSE },
  },
  {
    method: 'get',
    path: '/v1/responses/{id}',
    summary: 'A response that was begun in the background, as it is now, or its events',
    handler: reading,
    query: {
      stream: 'true: its events, those there are and those to come.',
      starting_after: 'The sequence_number of the last event that the client has; left out: all of them.',
    },
    answers: { 200: RESPONSE },
  },
  {
    method: 'post',
    path: '/v1/responses/{id}/cancel',
    summary: 'Ends a response that was begun in the background',
    handler: cancelling,
    answers: { 200: json('The response, as it ended.', responseSchema) },
  },
  {
    method: 'delete',
    path: '/v1/responses/{id}',
    summary: 'Ends a response that was begun in the background and forgets it',
    handler: deleting,
    answers: { 200: json('id, object and deleted.', deletedSchema) },
  },
  missing('get', '/v1/responses/{id}/input_items', NOT_STORED),
  missing('post', '/v1/responses/compact', 'Conversations are not compacted here.'),
  missing(
    'post',
    '/v1/responses/input_tokens',
    'Tokens of an input are not counted here: POST /v1/messages/count_tokens counts those of a conversation.',
  ),
];

/** OpenAI's responses, whole and streamed. The journal keeps those that continue in the background. */
function responding(deps: RouteDeps): Handler {
  return async (c) => {
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
  };
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
    priority: request.priority,
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
