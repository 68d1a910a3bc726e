/** Clients that ask without end, leave now and then, and know what the answer has to be. */
import { type AnswerDigest, digestOf } from '../fixtures/answer-digest.ts';
import type { Gateway } from '../fixtures/gateway.ts';
import type { Random } from '../fixtures/random.ts';
import type { VariedRequest } from '../fixtures/varied-requests.ts';

const CANCELLED_PERCENT = 30;
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
    try {
      const { digest } = await this.#ask(request, leaving.signal, count);
      this.counts.numAnswers += 1;
      if (digest !== this.#expected.get(request)?.digest) this.counts.numMismatches += 1;
    } catch (error) {
      if (leaving.signal.aborted) this.counts.numCancels += 1;
      else this.counts.failures.push(`${request.name}: ${(error as Error).message}`);
    }
  }

  async #ask(
    { path, body }: VariedRequest,
    signal?: AbortSignal,
    onPiece: () => void = () => {},
  ): Promise<AnswerDigest> {
    const job = path === '/execute' ? { job_id: crypto.randomUUID(), ...body } : body;
    // Not the fixture's post(): that one checks streams to their ends, and here clients leave before.
    const response = await fetch(this.#gateway.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(job),
      ...(signal === undefined ? {} : { signal }),
    });
    const spy = new TransformStream<Uint8Array, Uint8Array>({
      transform: (piece, controller) => {
        onPiece();
        this.onPiece();
        controller.enqueue(piece);
      },
    });
    return digestOf(path, new Response(response.body?.pipeThrough(spy), response));
  }
}
