import type { ServerResponse } from 'node:http';
import type { Context } from 'hono';
import type { OpenText } from '../generation/merge-streams.ts';
import { JSON_TYPE } from '../json/json-values.ts';
import { sharerOf } from '../server/guard/caller.ts';
import { failureLog } from '../server/request-log.ts';
import type { RouteDeps } from '../server/route-group.ts';
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
  { answerBudget: budget, log }: Pick<RouteDeps, 'answerBudget' | 'log'>,
  sourceBytes: number,
  pieces: Generator<string, undefined>,
): Response {
  const ahead = [pieces.next(), pieces.next()].flatMap(({ done, value }) => (done ? [] : [value]));
  // An answer that fits into one write is sent with its length, and nothing is held.
  if (ahead.length < 2) return c.body(ahead.join(''), 200, { 'content-type': JSON_TYPE });
  const heldBytes = sourceBytes + PIECE_CHARACTERS;
  const caller = sharerOf(c);
  budget.hold(caller, heldBytes);
  const release = (): void => budget.release(caller, heldBytes);
  const outgoing = (c.env as { outgoing?: ServerResponse } | undefined)?.outgoing;
  // A generator that passes on the pieces by `yield*` would keep each of them, as a variable does.
  const next = () => (ahead.length > 0 ? { value: ahead.shift() as string } : pieces.next());
  return respondInPieces(new ResponseStream(c, JSON_TYPE), { next }, failureLog(log, c), () => {
    if (outgoing === undefined || outgoing.closed) release();
    else outgoing.once('close', release);
  });
}

/**
 * Joins texts into pieces. maxTexts: the most texts of a piece. A generator keeps its variables while it waits, so none of them has
 * a piece: a slow client asks for the next one long after it was written.
 */
export function* inPieces(
  texts: Iterable<string>,
  maxTexts = Number.POSITIVE_INFINITY,
): Generator<string, undefined> {
  const gathered: string[] = [];
  let length = 0;
  for (const text of texts) {
    gathered.push(text);
    length += text.length;
    if (length < PIECE_CHARACTERS && gathered.length < maxTexts) continue;
    length = 0;
    yield gathered.splice(0).join('');
  }
  if (gathered.length > 0) yield gathered.join('');
}

/** Each in a turn of the event loop, or later. */
type Pieces = Iterator<string> | AsyncIterator<string>;

/**
 * Makes a piece in a turn of the event loop of its own, when the client has taken the last one. onBroken: called with the error of
 * a piece that cannot be made. The client sees that the answer is incomplete, and not why. onEnd: as that of ResponseStream.
 */
export function respondInPieces(
  stream: ResponseStream,
  pieces: Pieces,
  onBroken: (error: unknown) => void,
  onEnd: () => void,
): Response {
  const source = new PieceSource(stream, pieces, onBroken);
  source.resume();
  return stream.respond(source, onEnd);
}

class PieceSource implements OpenText {
  readonly #stream: ResponseStream;
  readonly #pieces: Pieces;
  readonly #onBroken: (error: unknown) => void;
  #state: 'paused' | 'open' | 'over' = 'paused';
  #isMaking = false;

  constructor(stream: ResponseStream, pieces: Pieces, onBroken: (error: unknown) => void) {
    this.#stream = stream;
    this.#pieces = pieces;
    this.#onBroken = onBroken;
  }

  pause(): void {
    if (this.#state === 'open') this.#state = 'paused';
  }

  resume(): void {
    if (this.#state === 'paused') this.#state = 'open';
    if (!this.#isMaking) void this.#make();
  }

  cancel(): void {
    this.#state = 'over';
  }

  get #isOver(): boolean {
    return this.#state === 'over';
  }

  async #make(): Promise<void> {
    this.#isMaking = true;
    for (await turns.next(); this.#state === 'open'; await turns.next()) await this.#next();
    this.#isMaking = false;
  }

  async #next(): Promise<void> {
    try {
      const { done, value } = await this.#pieces.next();
      // The client may have left meanwhile.
      if (this.#isOver) return;
      if (done === true) {
        this.#state = 'over';
        this.#stream.end();
      } else {
        this.#stream.write(value);
        this.#stream.flush();
      }
    } catch (error) {
      this.#onBroken(error);
      this.#stream.cut();
    }
  }
}
