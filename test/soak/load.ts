/** Clients that ask without end, leave now and then, and know what the answer has to be. */
import { once } from 'node:events';
import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { type AnswerDigest, digestOf } from '../fixtures/answer-digest.ts';
import type { Gateway } from '../fixtures/gateway.ts';
import type { Random } from '../fixtures/random.ts';
import type { VariedRequest } from '../fixtures/varied-requests.ts';
import { within } from '../fixtures/within.ts';

const CANCELLED_PERCENT = 30;
/** A client that waits longer has been forgotten: a failure, whether it was to leave or not. */
const ANSWER_MS = 120_000;
/** Clients that leave do so before this piece of a stream. */
const MAX_PIECES_BEFORE_CANCEL = 20;

export interface LoadCounts {
  numRequests: number;
  numAnswers: number;
  numCancels: number;
  numMismatches: number;
  /** Sentences of answers that did not end well. */
  readonly failures: string[];
}

export class Load {
  readonly counts: LoadCounts = {
    numRequests: 0,
    numAnswers: 0,
    numCancels: 0,
    numMismatches: 0,
    failures: [],
  };
  /** Told of each piece that comes on any stream. */
  onPiece: () => void = () => {};
  readonly #gateway: Gateway;
  readonly #requests: readonly VariedRequest[];
  readonly #random: Random;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #expected = new Map<VariedRequest, AnswerDigest>();

  constructor(gateway: Gateway, requests: readonly VariedRequest[], random: Random) {
    this.#gateway = gateway;
    this.#requests = requests;
    this.#random = random;
  }

  /** Asks for each answer once, while nothing disturbs. */
  async learn(): Promise<void> {
    for (const request of this.#requests) this.#expected.set(request, await this.#ask(request));
  }

  /** One client. */
  async run(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const request = this.#random.pick(this.#requests);
      this.counts.numRequests += 1;
      const isLeaving = this.#random.below(100) < CANCELLED_PERCENT;
      await this.#client(request, isLeaving ? this.#random.below(MAX_PIECES_BEFORE_CANCEL) : undefined);
    }
  }

  /** One answer, to its end or until so many pieces have come: then the client closes its connection. */
  async #client(request: VariedRequest, numPieces: number | undefined): Promise<void> {
    const leaving = new AbortController();
    let left = numPieces ?? Number.POSITIVE_INFINITY;
    const count = () => {
      left -= 1;
      if (left <= 0) leaving.abort();
    };
    const answer = this.#ask(request, leaving.signal, count).then(
      ({ digest }) => ({ digest }),
      (error: Error) => ({ error }),
    );
    try {
      const outcome = await within(ANSWER_MS, 'the end', answer);
      if ('digest' in outcome) {
        this.counts.numAnswers += 1;
        if (outcome.digest !== this.#expected.get(request)?.digest) this.counts.numMismatches += 1;
      } else if (leaving.signal.aborted) this.counts.numCancels += 1;
      else throw outcome.error;
    } catch (error) {
      this.counts.failures.push(`${request.name}: ${(error as Error).message}`);
    }
  }

  async #ask(
    { path, body }: VariedRequest,
    signal?: AbortSignal,
    onPiece: () => void = () => {},
  ): Promise<AnswerDigest> {
    const job = path === '/execute' ? { job_id: crypto.randomUUID(), ...body } : body;
    const [outgoing, incoming] = await this.#send(path, JSON.stringify(job));
    // From here on the body fails.
    outgoing.on('error', () => {});
    signal?.addEventListener('abort', () => outgoing.destroy());
    const { statusCode = 0, headers } = incoming;
    const watched = Readable.toWeb(Readable.from(this.#watched(incoming, onPiece))) as ReadableStream;
    const type = { 'content-type': headers['content-type'] ?? '' };
    return digestOf(path, new Response(watched, { status: statusCode, headers: type }));
  }

  /** A server may close an idle connection at the moment when it is used again: then the request is sent on another. */
  async #send(path: string, body: string): Promise<[ClientRequest, IncomingMessage]> {
    for (;;) {
      // Not fetch(): in Node 20 a body whose fetch is aborted is, once in a thousand times, neither read to its end nor failed.
      const outgoing = request(this.#gateway.url + path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        agent: this.#agent,
      });
      outgoing.end(body);
      try {
        const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage];
        return [outgoing, incoming];
      } catch (error) {
        if (!outgoing.reusedSocket || (error as NodeJS.ErrnoException).code !== 'ECONNRESET') throw error;
      }
    }
  }

  async *#watched(incoming: IncomingMessage, onPiece: () => void): AsyncGenerator<Buffer, void, undefined> {
    for await (const piece of incoming) {
      onPiece();
      this.onPiece();
      yield piece as Buffer;
    }
  }
}
