import type { ServerResponse } from 'node:http';
import type { Context } from 'hono';
import { JSON_TYPE } from '../json/json-values.ts';
import type { ByteBudget } from '../server/guard/bodies.ts';
import { sharerOf } from '../server/guard/caller.ts';
import { streamResponse } from '../server/streams/stream.ts';
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
  return streamResponse(c, JSON_TYPE, encoded(rejoined(ahead, pieces)), {
    onCancel: release,
    onEnd: () => {
      if (outgoing === undefined || outgoing.closed) release();
      else outgoing.once('close', release);
    },
  });
}

/** Yields the pieces ahead, then the rest. A piece is dropped when it is yielded. */
function* rejoined(ahead: string[], rest: Generator<string>): Generator<string> {
  while (ahead.length > 0) yield ahead.shift() as string;
  yield* rest;
}

function encoded(pieces: Iterator<string>): AsyncIterator<Uint8Array> {
  const encoder = new TextEncoder();
  return {
    async next() {
      await turns.next();
      const { done, value } = pieces.next();
      return done === true ? { done, value: undefined } : { done: false, value: encoder.encode(value) };
    },
  };
}

function once(action: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) action();
    isDone = true;
  };
}
