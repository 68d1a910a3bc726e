import type { Context } from 'hono';
import type { MergedSink } from '../generation/merge-streams.ts';
import { ResponseStream } from '../server/streams/response-stream.ts';
import { eventStream } from '../server/streams/sse.ts';
import { toApiError } from '../server/to-api-error.ts';
import type { CallLog, Encoding, EventEncoder, EventOutlet } from './call.ts';

/** Streams of answers, in the form that their API gives them. */

export function streamOf(c: Context, { form }: Pick<Encoding, 'form'>): ResponseStream {
  return form === undefined ? eventStream(c) : new ResponseStream(c, form.type, form);
}

/**
 * Numbers events from 0, and leaves out those up to `last`, which the client has. Server-sent events get their numbers as ids,
 * MessagePack has them as members, and lines are counted by their readers.
 */
export class NumberedOutlet implements EventOutlet {
  readonly #outlet: EventOutlet;
  readonly #last: number;
  readonly #hasIds: boolean;
  nextId = 0;

  constructor(outlet: EventOutlet, { form }: Pick<Encoding, 'form'>, last: number) {
    this.#outlet = outlet;
    this.#last = last;
    this.#hasIds = form === undefined;
  }

  write(text: string): void {
    const id = this.nextId++;
    if (id > this.#last) this.#outlet.write(this.#hasIds ? `id: ${id}\n${text}` : text);
  }

  end(): void {
    this.#outlet.end();
  }
}

/** The encoder as a sink. Failures are logged as they are; the client sees only what toApiError lets through. */
export function loggingSink(encoder: EventEncoder, log: Pick<CallLog, 'ended' | 'failed'>): MergedSink {
  return {
    onPart: (part, index) => {
      if (part.end !== undefined) log.ended(part.end);
      encoder.onPart(part, index);
    },
    onError: (thrown) => {
      log.failed(thrown);
      encoder.onFailure(toApiError(thrown));
    },
  };
}
