import { streamAnswer } from '../../client/answer-stream.ts';
import { RefusedError } from '../../client/refused-error.ts';
import type { Server } from '../../client/server.ts';
import { UnavailableError } from '../../errors/exit-code.ts';

/** One request, measured. Times are milliseconds of one clock. */
export interface Sample {
  readonly startedMs: number;
  readonly endedMs: number;
  /** When each event with text or thoughts arrived; a server may put several tokens into one. */
  readonly arrivedMs: readonly number[];
  /** As the server counts them, else these events. */
  readonly numTokens: number;
  readonly numPromptTokens: number | undefined;
  /** Why there is no whole answer. */
  readonly failure: UnavailableError | RefusedError | undefined;
}

/** Asks, and reads to the end. now: in milliseconds. */
export async function measure(server: Server, body: object, now: () => number): Promise<Sample> {
  const startedMs = now();
  const arrivedMs: number[] = [];
  let numTokens: number | undefined;
  let numPromptTokens: number | undefined;
  let failure: Sample['failure'];
  try {
    const { signal } = new AbortController();
    for await (const { text, thought, usage } of streamAnswer(server, '/v1/chat/completions', body, signal)) {
      if (text !== '' || thought !== '') arrivedMs.push(now());
      numTokens = usage?.completion_tokens ?? numTokens;
      numPromptTokens = usage?.prompt_tokens ?? numPromptTokens;
    }
  } catch (error) {
    if (!(error instanceof UnavailableError) && !(error instanceof RefusedError)) throw error;
    failure = error;
  }
  return {
    startedMs,
    endedMs: now(),
    arrivedMs,
    numTokens: numTokens ?? arrivedMs.length,
    numPromptTokens,
    failure,
  };
}
