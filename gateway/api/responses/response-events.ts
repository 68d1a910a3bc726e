import type { AnswerPart, TextSink } from '../../generation/text-stream.ts';
import { toApiError } from '../../server/to-api-error.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { choiceText, GrowingText } from '../openai/completion.ts';
import type { EventOutlet } from '../openai/completion-events.ts';
import { EventWriter } from './event-writer.ts';
import { MessageItemEvents } from './message-item.ts';
import { endStatus, type ResponseObject } from './response.ts';

export interface ResponseEventOptions {
  readonly tokenizer: Pick<Tokenizer, 'bytes'>;
  /** Sees what ended the stream before its time; the client sees only what toApiError lets through. */
  readonly onError: (error: unknown) => void;
}

/**
 * An answer as events: response.created, response.in_progress, those of its message, and exactly one of response.completed,
 * response.incomplete and response.failed, the last one.
 */
export class ResponseEvents implements TextSink {
  readonly #response: ResponseObject;
  readonly #options: ResponseEventOptions;
  readonly #writer: EventWriter;
  readonly #message: MessageItemEvents;
  /** The last events have all of it. */
  readonly #text = new GrowingText();

  /** Writes the opening. */
  constructor(response: ResponseObject, options: ResponseEventOptions, outlet: EventOutlet) {
    this.#response = response;
    this.#options = options;
    this.#writer = new EventWriter(outlet);
    const begun = response.inProgress();
    this.#stage('response.created', begun);
    this.#stage('response.in_progress', begun);
    this.#message = new MessageItemEvents(options.tokenizer, response.messageId, 0, this.#writer);
  }

  onPart(part: AnswerPart): void {
    const piece = choiceText(part);
    this.#text.append(piece);
    if (piece.text !== '') this.#message.delta(piece);
    const { end } = part;
    if (end === undefined) return;
    const status = endStatus(end);
    this.#message.close(this.#text, status);
    this.#stage(`response.${status}`, this.#response.ended({ text: this.#text, end }));
    this.#writer.end();
  }

  onError(error: unknown): void {
    this.#options.onError(error);
    this.#stage('response.failed', this.#response.failed(this.#text, toApiError(error)));
    this.#writer.end();
  }

  #stage(type: string, response: string): void {
    this.#writer.write(type, `"response":${response}`);
  }
}
