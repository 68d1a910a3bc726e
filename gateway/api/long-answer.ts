import type { ServerResponse } from 'node:http';
import type { Context } from 'hono';
import type { OpenText } from '../generation/merge-streams.ts';
import { JSON_TYPE } from '../json/json-text.ts';
import type { ByteBudget } from '../server/guard/bodies.ts';
import { sharerOf } from '../server/guard/caller.ts';
import { ResponseStream } from '../server/streams/response-stream.ts';
import { turns } from '../system/turns.ts';

/** The characters of one write: a piece ends with the item that reaches this length. */
export const PIECE_CHARACTERS = 2 ** 14;

/**
 * An answer that may be many times as long as its request, made piece by piece as its client takes it. sourceBytes: the
 * size of what it is made from. These bytes and one piece count against the budget until the client has the whole answer
 * or has left. Throws a 503 if the budget has no room.
 */
export function longAnswer(
  c: Context,
  budget: ByteBudget,
  sourceBytes: number,
  pieces: Generator<string>,
): Response {
  const ahead = [pieces.next(), pieces.next()].flatMap(({ done, value }) => (done ? [] : [value]));
  // An answer that fits into one write is sent with its length, and nothing is held.
  if (ahead.length < 2) return c.body(ahead.join(''), 200, { 'content-type': JSON_TYPE });
  const heldBytes = sourceBytes + PIECE_CHARACTERS;
  const caller = sharerOf(c);
  budget.hold(caller, heldBytes);
  const release = once(() => budget.release(caller, heldBytes));
  const outgoing = (c.env as { outgoing?: ServerResponse } | undefined)?.outgoing;
  const stream = new ResponseStream(c, JSON_TYPE);
  return stream.respond(new Pieces(rejoined(ahead, pieces), stream), () => {
    if (outgoing === undefined || outgoing.closed) release();
    else outgoing.once('close', release);
  });
}

/** Yields the pieces ahead, then the rest. A piece is dropped when it is yielded. */
function* rejoined(ahead: string[], rest: Generator<string>): Generator<string> {
  while (ahead.length > 0) yield ahead.shift() as string;
  yield* rest;
}

/** Makes a piece in each turn, while the client takes them. */
class Pieces implements OpenText {
  readonly #pieces: Generator<string>;
  readonly #stream: ResponseStream;
  #state: 'open' | 'paused' | 'over' = 'open';
  #isWriting = false;

  constructor(pieces: Generator<string>, stream: ResponseStream) {
    this.#pieces = pieces;
    this.#stream = stream;
    void this.#write();
  }

  pause(): void {
    if (this.#state === 'open') this.#state = 'paused';
  }

  resume(): void {
    if (this.#state === 'paused') this.#state = 'open';
    void this.#write();
  }

  cancel(): void {
    this.#state = 'over';
  }

  async #write(): Promise<void> {
    if (this.#isWriting) return;
    this.#isWriting = true;
    while (this.#state === 'open') {
      await turns.next();
      if (this.#state === 'open') this.#writeNext();
    }
    this.#isWriting = false;
  }

  #writeNext(): void {
    try {
      const { done, value } = this.#pieces.next();
      if (done === true) {
        this.#state = 'over';
        this.#stream.end();
      } else {
        this.#stream.write(value);
        this.#stream.flush();
      }
    } catch (error) {
      this.#stream.breakOff(error);
    }
  }
}

function once(action: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) action();
    isDone = true;
  };
}
