import type { Call, Encoding, EventEncoder, EventOutlet } from '../../calls/call.ts';
import type { ApiError } from '../../errors/api-error.ts';
import type { AnswerPart } from '../../generation/text-stream.ts';
import { jsonText } from '../../json/json-values.ts';
import { codec } from '../body.ts';
import { thinkingParamsOf } from '../call-fields.ts';
import { toolParamsOf } from '../tools.ts';
import { EventWriter, errorEvent, Output } from './output.ts';
import {
  type Conversation,
  type Item,
  leftOutTools,
  type ResponsesRequest,
  reasoningParams,
  responsesBody,
  responsesBodyAfter,
} from './request.ts';
import { endStatus, type ResponseEventName, ResponseObject, responseId } from './response.ts';

/** OpenAI's responses: what a body asks, and how it is answered, whole and as events. */

/**
 * Writes an answer as events: response.created, response.in_progress, the events of its items, and as the last event exactly
 * one of response.completed, response.incomplete and response.failed.
 */
class ResponseEvents implements EventEncoder {
  readonly #response: ResponseObject;
  readonly #onStage: (response: string) => void;
  readonly #writer: EventWriter;
  readonly #output: Output;

  /** Writes the first events. onStage: gets the JSON of the response from each event that has the whole response. */
  constructor(response: ResponseObject, outlet: EventOutlet, onStage: (response: string) => void = () => {}) {
    const { tokenizer, beginsWithText } = response.facts;
    this.#response = response;
    this.#onStage = onStage;
    this.#writer = new EventWriter(outlet);
    const begun = response.inProgress();
    this.#stage('response.created', begun);
    this.#stage('response.in_progress', begun);
    this.#output = new Output(response.itemIds, tokenizer, this.#writer);
    // An answer that may begin with a call or with thinking gets its first item when its first part arrives.
    if (beginsWithText) this.#output.beginMessage();
  }

  onPart(part: AnswerPart): void {
    const { numWholeCalls = 0, end } = part;
    this.#output.add(part, numWholeCalls);
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
    this.#onStage(response);
    this.#writer.write(type, `"response":${response}`);
  }
}

export const RESPONSES_PATH = '/v1/responses';

/** POST /v1/responses. */
export const responses = codecOf(responsesBody);

/** The same for a body that continues a conversation. earlier: the items of that conversation. */
export function responsesAfter(earlier: readonly Item[]): typeof responses {
  return earlier.length === 0 ? responses : codecOf(responsesBodyAfter(earlier));
}

function codecOf(body: typeof responsesBody) {
  const { parse } = codec(body, ({ input, ...request }) => ({
    call: callOf(request, input),
    encoding: encodingOf(request),
  }));
  return {
    body,
    parse: (meant: unknown, sent: unknown = meant) => {
      const { ignored, ...parsed } = parse(meant, sent);
      return { ...parsed, ignored: [...ignored, ...leftOutTools(sent)] };
    },
  };
}

function callOf(request: ResponsesRequest, { messages, items }: Conversation): Call {
  const { model, instructions, text, include, store, background, durable } = request;
  const { grammar } = text;
  const isJob = background || durable;
  return {
    model,
    isStreamed: request.stream,
    input: {
      field: 'input',
      messages:
        instructions === undefined ? messages : [{ role: 'system', content: instructions }, ...messages],
    },
    tools: toolParamsOf(request),
    format: grammar && { field: 'text.format', grammar },
    thinking: thinkingParamsOf(reasoningParams(request)),
    sampling: { temperature: request.temperature, topP: request.top_p },
    seed: request.seed,
    priority: request.priority,
    maxTokens: request.max_output_tokens,
    stop: [],
    report: { topLogprobs: include.logprobs ? request.top_logprobs : undefined },
    durable: background ? 'background' : durable ? 'durable' : undefined,
    receipt: request.receipt,
    stored: isJob || store === false ? undefined : store ? 'required' : 'if-possible',
    history: () => jsonText(items),
  };
}

function encodingOf(request: ResponsesRequest): Encoding {
  return {
    whole: (facts, [choice]) => {
      if (choice === undefined) throw new Error('A response has one choice.');
      const { end, ...text } = choice;
      const response = new ResponseObject(request, facts);
      const output = new Output(response.itemIds, facts.tokenizer);
      output.add(text, end.numCalls ?? 0);
      output.end(endStatus(end));
      return response.ended(output.items(endStatus(end)), end);
    },
    stream: (facts, outlet) => new ResponseEvents(new ResponseObject(request, facts), outlet),
    failureEvent: errorEvent,
    stages: (facts, onStage, end) => {
      return new ResponseEvents(new ResponseObject(request, facts), { write: () => {}, end }, onStage);
    },
    jobId: responseId,
  };
}
