import { stringify } from 'lossless-json';
import { GenerationError, type GenerationErrorCode } from '../../runner/runner.ts';
import type { AnswerEnd, AnswerPart } from '../../tokenizer/answer.ts';
import { namedEvent } from '../sse.ts';

/**
 * The events of POST /execute: one `started`, then `token`s, then exactly one `end` or `error`, and nothing after.
 */

export type NativeErrorCode = 'VRAM_OOM' | 'CANCELLED' | 'TIMEOUT' | 'INVALID_REQUEST' | 'INFERENCE_FAILED';

const ERROR_CODES: Record<GenerationErrorCode, NativeErrorCode> = {
  INVALID_REQUEST: 'INVALID_REQUEST',
  CANCELLED: 'CANCELLED',
  OUT_OF_MEMORY: 'VRAM_OOM',
  QUEUE_FULL: 'INFERENCE_FAILED',
  NOT_READY: 'INFERENCE_FAILED',
  INFERENCE_FAILED: 'INFERENCE_FAILED',
};

export interface StartedEvent {
  readonly job_id: string;
  readonly model: string;
  /** ISO 8601, UTC. */
  readonly started_at: string;
  /** The one used: the request's own, or the random one drawn for it. */
  readonly seed: bigint;
}

export async function* executeEvents(
  started: StartedEvent,
  answer: AsyncIterable<AnswerPart>,
  now: () => number,
  onFault: (error: unknown) => void,
): AsyncGenerator<string> {
  yield event('started', started);
  const startedMs = now();
  try {
    for await (const part of answer) {
      // One write for all that a step brought.
      const tokens = part.pieces.map(({ text, index }) => event('token', { t: text, i: index })).join('');
      const end = part.end === undefined ? '' : endEvent(part.end, now() - startedMs, started.seed);
      if (tokens + end !== '') yield tokens + end;
    }
  } catch (error) {
    if (!(error instanceof GenerationError)) onFault(error);
    yield errorEvent(error);
  }
}

function endEvent(end: AnswerEnd, decodeTimeMs: number, seed: bigint): string {
  return event('end', {
    tokens_out: end.numTokens,
    decode_time_ms: Math.round(decodeTimeMs),
    stop_reason: end.reason,
    stop_sequence_matched: end.stopMatched,
    seed,
  });
}

function errorEvent(error: unknown): string {
  if (!(error instanceof GenerationError)) {
    const message = 'The gateway met an error of its own; its log has the details.';
    return event('error', { code: 'INFERENCE_FAILED', message, retriable: false });
  }
  return event('error', {
    code: ERROR_CODES[error.code],
    message: error.message,
    retriable: error.retriable,
  });
}

function event(name: string, payload: object): string {
  const json = stringify(payload);
  if (json === undefined) throw new TypeError(`the ${name} event has no JSON form`);
  return namedEvent(name, json);
}
