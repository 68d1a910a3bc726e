import type { Call, Encoding, Facts, ParsedCall } from '../../calls/call.ts';
import { thinkingWishOf } from '../thinking-parts.ts';
import { toolWishOf } from '../tools.ts';
import { errorEvent, Output } from './output.ts';
import {
  ignoredByResponses,
  parseResponsesRequest,
  type ResponsesRequest,
  saidOfThinking,
} from './request.ts';
import { endStatus, ResponseObject, responseId } from './response.ts';
import { ResponseEvents } from './response-events.ts';

/** OpenAI's responses, whole and streamed. */

export const RESPONSES_PATH = '/v1/responses';

/** Throws a 400 whose `param` is the first field at fault and whose message names all of them. */
export function parseResponses(body: unknown): ParsedCall {
  const request = parseResponsesRequest(body);
  return { call: callOf(request), ignored: ignoredByResponses(body), encoding: encodingOf(request) };
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
    priority: request.priority,
    maxTokens: request.max_output_tokens,
    stop: [],
    report: { topLogprobs: include.logprobs ? request.top_logprobs : undefined },
    durable: request.background ? 'background' : request.durable ? 'durable' : undefined,
  };
}

function encodingOf(request: ResponsesRequest): Encoding {
  const responseOf = (facts: Facts) => new ResponseObject({ ...facts, request });
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
    stages: ({ tokenizer, ...facts }, onStage, end) => {
      const outlet = { write: () => {}, end };
      return new ResponseEvents(responseOf({ ...facts, tokenizer }), { tokenizer, onStage }, outlet);
    },
    jobId: responseId,
  };
}
