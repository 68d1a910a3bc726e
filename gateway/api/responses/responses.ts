import type { Call, Encoding, EventEncoder, EventOutlet, Facts, ParsedCall } from '../../calls/call.ts';
import { choiceText } from '../../calls/whole-answer.ts';
import type { ApiError } from '../../errors/api-error.ts';
import type { AnswerPart } from '../../generation/text-stream.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { ignoredIn, parseBody } from '../body.ts';
import { thinkingWishOf } from '../thinking-parts.ts';
import { toolWishOf } from '../tools.ts';
import type { ResponseEventName } from './answers.ts';
import { EventWriter, errorEvent, Output } from './output.ts';
import { type ResponsesRequest, responsesSchema, saidOfThinking } from './request.ts';
import { endStatus, ResponseObject, responseId } from './response.ts';

/** OpenAI's responses: what a body asks, and how it is answered, whole and as events. */

interface ResponseEventOptions {
  readonly tokenizer: Pick<Tokenizer, 'bytes'>;
  /** Gets the JSON of the response from each event that has the whole response. */
  readonly onStage?: (response: string) => void;
}

/**
 * Writes an answer as events: response.created, response.in_progress, the events of its items, and as the last event exactly
 * one of response.completed, response.incomplete and response.failed.
 */
class ResponseEvents implements EventEncoder {
  readonly #response: ResponseObject;
  readonly #options: ResponseEventOptions;
  readonly #writer: EventWriter;
  readonly #output: Output;

  /** Writes the first events. */
  constructor(response: ResponseObject, options: ResponseEventOptions, outlet: EventOutlet) {
    this.#response = response;
    this.#options = options;
    this.#writer = new EventWriter(outlet);
    const begun = response.inProgress();
    this.#stage('response.created', begun);
    this.#stage('response.in_progress', begun);
    this.#output = new Output(response.itemIds, options.tokenizer, this.#writer);
    // An answer that may begin with a call or with thinking gets its first item when its first part arrives.
    if (response.beginsWithText) this.#output.beginMessage();
  }

  onPart(part: AnswerPart): void {
    const { numWholeCalls = 0, end } = part;
    this.#output.add(choiceText(part), numWholeCalls);
    if (end === undefined) return;
    const status = endStatus(end);
    this.#output.end(status);
    this.#stage(`response.${status}`, this.#response.ended(this.#output.items(status), end));
    this.#writer.end();
  }

  onFailure(error: ApiError): void {
    this.#stage('response.failed', this.#response.failed(this.#output.items('incomplete'), error));
    this.#writer.end();
  }

  #stage(type: ResponseEventName, response: string): void {
    this.#options.onStage?.(response);
    this.#writer.write(type, `"response":${response}`);
  }
}

export const RESPONSES_PATH = '/v1/responses';

/** Throws a 400 whose `param` is the first field at fault and whose message names all of them. */
export function parseResponses(body: unknown): ParsedCall {
  const request = parseBody(responsesSchema, body);
  const ignored = ignoredIn(responsesSchema, body);
  return { call: callOf(request), ignored, encoding: encodingOf(request) };
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
