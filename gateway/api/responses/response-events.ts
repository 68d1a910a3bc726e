import type { EventEncoder, EventOutlet } from '../../calls/call.ts';
import { choiceText } from '../../calls/whole-answer.ts';
import type { ApiError } from '../../errors/api-error.ts';
import type { AnswerPart } from '../../generation/text-stream.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import type { ResponseEventName } from './answers.ts';
import { EventWriter, Output } from './output.ts';
import { endStatus, type ResponseObject } from './response.ts';

interface ResponseEventOptions {
  readonly tokenizer: Pick<Tokenizer, 'bytes'>;
  /** Gets the JSON of the response from each event that has the whole response. */
  readonly onStage?: (response: string) => void;
}

/**
 * Writes an answer as events: response.created, response.in_progress, the events of its items, and as the last event exactly
 * one of response.completed, response.incomplete and response.failed.
 */
export class ResponseEvents implements EventEncoder {
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
