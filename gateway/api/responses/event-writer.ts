import type { EventOutlet } from '../../calls/call.ts';
import type { ApiError } from '../../errors/api-error.ts';
import { namedEvent } from '../../server/streams/sse.ts';
import { openAiErrorBody } from '../openai/errors.ts';
import type { ResponseEventName } from './answers.ts';

/** Writes the events of one response, numbered from 0. */
export class EventWriter {
  readonly #outlet: EventOutlet;
  #sequenceNumber = 0;

  constructor(outlet: EventOutlet) {
    this.#outlet = outlet;
  }

  /** members: the other members of the event as JSON, without the braces around them. */
  write(type: ResponseEventName, members: string): void {
    this.#outlet.write(numberedEvent(type, members, this.#sequenceNumber++));
  }

  end(): void {
    this.#outlet.end();
  }
}

function numberedEvent(type: ResponseEventName, members: string, sequenceNumber: number): string {
  return namedEvent(type, `{"type":"${type}",${members},"sequence_number":${sequenceNumber}}`);
}

/** The only event of a stream that failed before it had a response. SDKs recognise it by its member `error`. */
export function errorEvent(apiError: ApiError): string {
  const { error } = openAiErrorBody(apiError);
  const { code, message, param } = error;
  const members = JSON.stringify({ code, message, param, error }).slice(1, -1);
  return numberedEvent('error', members, 0);
}
