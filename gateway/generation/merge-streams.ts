import { setMaxListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { GenerateRequest, Runner } from '../runner/runner.ts';
import { type AnswerOptions, type AnswerPart, readAnswer } from './text-stream.ts';

/** The next part of one of several answers. */
export interface IndexedPart {
  /** Place of its request among the requests. */
  readonly index: number;
  readonly part: AnswerPart;
}

/** What was asked of an answer, once it has come: its next part, nothing more, or the error that ended it. */
type Arrival = { readonly index: number; readonly result: IteratorResult<AnswerPart, void> } | FailedArrival;
type FailedArrival = { readonly index: number; readonly error: unknown };

/**
 * Several requests whose answers are read side by side: what one step of the runner brought comes as one list, in the
 * order of the requests. Takes all of them or none, throwing GenerationError at once; later the failure of one ends
 * all. Aborting the signal cancels all.
 */
export function readAnswers(
  runner: Pick<Runner, 'generate' | 'assertCapacity'>,
  requests: readonly GenerateRequest[],
  options: AnswerOptions,
  signal: AbortSignal,
): AsyncGenerator<readonly IndexedPart[], void, undefined> {
  const failure = new AbortController();
  const either = AbortSignal.any([signal, failure.signal]);
  // Each request listens, and Node takes more than ten listeners for a leak.
  setMaxListeners(requests.length + 1, either);
  runner.assertCapacity(requests);
  try {
    const answers = requests.map((request) => readAnswer(runner.generate(request, either), options));
    return readTogether(answers, () => failure.abort());
  } catch (error) {
    failure.abort();
    throw error;
  }
}

async function* readTogether(
  answers: readonly AsyncGenerator<AnswerPart, void>[],
  onFailure: () => void,
): AsyncGenerator<readonly IndexedPart[], void, undefined> {
  let arrived: Arrival[] = [];
  let wake = (): void => {};
  const arrive = (arrival: Arrival): void => {
    arrived.push(arrival);
    wake();
  };
  let numRunning = 0;
  const ask = (answer: AsyncGenerator<AnswerPart, void>, index: number): void => {
    numRunning++;
    answer.next().then(
      (result) => arrive({ index, result }),
      (error: unknown) => arrive({ index, error }),
    );
  };
  answers.forEach(ask);
  while (numRunning > 0) {
    if (arrived.length === 0) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    // The frame that brought the first may have brought the others, whose promises settle in the same turn.
    if (arrived.length < numRunning) await nextTurn();
    const arrivals = arrived.sort((a, b) => a.index - b.index);
    arrived = [];
    numRunning -= arrivals.length;
    const parts: IndexedPart[] = [];
    for (const arrival of arrivals) {
      if ('error' in arrival) {
        onFailure();
        throw arrival.error;
      }
      if (arrival.result.done !== true) parts.push({ index: arrival.index, part: arrival.result.value });
    }
    if (parts.length > 0) yield parts;
    // Asked for only now: a client that does not read must not have the runner go on.
    for (const { index } of parts) ask(answers[index] as AsyncGenerator<AnswerPart, void>, index);
  }
}
