import type { EventEncoder, EventOutlet, Facts } from '../../calls/call.ts';
import type { ApiError } from '../../errors/api-error.ts';
import type { AnswerEnd, AnswerPart } from '../../generation/text-stream.ts';
import { GenerationError, type GenerationErrorCode } from '../../runner/runner.ts';
import type { EndData, ErrorData, MetricsData, StartedData, TokenData } from './answers.ts';

/**
 * Makes the events of POST /execute: one `started`, then `token`s, with `metrics` among them if asked for, then exactly
 * one `end` or `error`, and nothing after. event-stream.ts has their two forms on the wire.
 */

const ERROR_CODES: Record<GenerationErrorCode, ErrorData['code']> = {
  INVALID_REQUEST: 'INVALID_REQUEST',
  CANCELLED: 'CANCELLED',
  TIMEOUT: 'TIMEOUT',
  OUT_OF_MEMORY: 'VRAM_OOM',
  QUEUE_FULL: 'INFERENCE_FAILED',
  NOT_READY: 'INFERENCE_FAILED',
  INFERENCE_FAILED: 'INFERENCE_FAILED',
  GRAMMAR_FAILED: 'INFERENCE_FAILED',
  RUNNER_CRASHED: 'INFERENCE_FAILED',
};

export type NativeEvent =
  | { readonly event: 'started'; readonly data: StartedData }
  | { readonly event: 'token'; readonly data: TokenData }
  | { readonly event: 'metrics'; readonly data: MetricsData }
  | { readonly event: 'end'; readonly data: EndData }
  | { readonly event: 'error'; readonly data: ErrorData };

/** A form of the events on the wire, in the encoding of the stream. id: the event's number, if it has one. */
export interface EventForm {
  /** Encodes `token`, the most frequent event, without an object for the event. */
  token(data: TokenData, id: number | undefined): string;
  event(event: NativeEvent, id: number | undefined): string;
}

/** What the events need of the request. */
export interface ExecuteOptions {
  readonly job_id: string;
  /** Whether `token` and `end` have the tokens' ids. */
  readonly token_ids: boolean;
  readonly metrics: boolean;
}

/** The least time between two `metrics` events. */
const METRICS_INTERVAL_MS = 1000;

/** Writes an answer as its events, from `started` to the terminal one. */
export class ExecuteEvents implements EventEncoder {
  readonly #facts: Facts;
  readonly #form: EventForm;
  readonly #outlet: EventOutlet;
  readonly #unsaid: UnsaidIds | undefined;
  readonly #rate: TokenRate | undefined;

  /** Writes `started`. */
  constructor(
    { job_id, token_ids, metrics }: ExecuteOptions,
    facts: Facts,
    form: EventForm,
    outlet: EventOutlet,
  ) {
    this.#facts = facts;
    this.#form = form;
    this.#outlet = outlet;
    this.#unsaid = token_ids ? new UnsaidIds() : undefined;
    this.#rate = metrics ? new TokenRate(facts.elapsedMs()) : undefined;
    const { modelId: model, createdMs, seed } = facts;
    const started_at = new Date(createdMs).toISOString();
    this.#write({ event: 'started', data: { job_id, model, started_at, seed } });
  }

  onPart({ pieces, tokenIds, end }: AnswerPart): void {
    this.#unsaid?.push(tokenIds);
    for (const { text, index } of pieces.length > 1 ? joinSameToken(pieces) : pieces) {
      const data = { t: text, i: index, ...this.#idsUpTo(index) };
      this.#outlet.write(this.#form.token(data, this.#outlet.nextId));
    }
    this.#writeMetrics(tokenIds.length, end !== undefined);
    if (end === undefined) return;
    const ids = this.#idsUpTo(end.numTokens - 1);
    this.#write(endEvent(end, this.#facts.elapsedMs(), this.#facts.seed, ids));
    this.#outlet.end();
  }

  onFailure(error: ApiError): void {
    this.#write({ event: 'error', data: errorData(error) });
    this.#outlet.end();
  }

  #writeMetrics(numTokens: number, isLast: boolean): void {
    const tokensPerSec = this.#rate?.sample(numTokens, this.#facts.elapsedMs());
    if (tokensPerSec === undefined || isLast) return;
    const vram_bytes = this.#facts.vramBytes();
    this.#write({ event: 'metrics', data: { tokens_per_sec: tokensPerSec, vram_bytes } });
  }

  #idsUpTo(index: number): { ids?: readonly number[] } {
    return this.#unsaid === undefined ? {} : { ids: this.#unsaid.takeUpTo(index) };
  }

  #write(event: NativeEvent): void {
    this.#outlet.write(this.#form.event(event, this.#outlet.nextId));
  }
}

/** Ids of tokens whose text has not been sent yet. */
class UnsaidIds {
  #ids: number[] = [];
  #firstIndex = 0;

  push(ids: readonly number[]): void {
    for (const id of ids) this.#ids.push(id);
  }

  takeUpTo(index: number): number[] {
    const taken = this.#ids.splice(0, index + 1 - this.#firstIndex);
    this.#firstIndex += taken.length;
    return taken;
  }
}

class TokenRate {
  #sinceMs: number;
  #count = 0;

  constructor(nowMs: number) {
    this.#sinceMs = nowMs;
  }

  /** Tokens per second since the last rate that was returned; undefined within METRICS_INTERVAL_MS of that. */
  sample(numTokens: number, nowMs: number): number | undefined {
    this.#count += numTokens;
    const elapsedMs = nowMs - this.#sinceMs;
    if (elapsedMs < METRICS_INTERVAL_MS) return undefined;
    const tokensPerSec = (this.#count * 1000) / elapsedMs;
    this.#sinceMs = nowMs;
    this.#count = 0;
    return tokensPerSec;
  }
}

/**
 * Joins the last token's text and text that was held back until the end into one event, because `i` rises with each
 * event.
 */
function joinSameToken(pieces: AnswerPart['pieces']): { text: string; index: number }[] {
  const joined: { text: string; index: number }[] = [];
  for (const { text, index } of pieces) {
    const before = joined.at(-1);
    if (before?.index === index) before.text += text;
    else joined.push({ text, index });
  }
  return joined;
}

function endEvent(
  end: AnswerEnd,
  decodeTimeMs: number,
  seed: bigint,
  ids: { ids?: readonly number[] },
): NativeEvent {
  return {
    event: 'end',
    data: {
      tokens_out: end.numTokens,
      decode_time_ms: Math.round(decodeTimeMs),
      stop_reason: end.reason,
      stop_sequence_matched: end.stopMatched,
      seed,
      cached_tokens: end.numCachedTokens,
      ...(end.continuedBy === undefined ? {} : { continued_by: end.continuedBy }),
      ...(end.timings === undefined ? {} : { timings: end.timings }),
      ...ids,
    },
  };
}

/** The data of the event `error`. */
export function errorData({ cause, status, message, retriable }: ApiError): ErrorData {
  if (cause instanceof GenerationError) return { code: ERROR_CODES[cause.code], message, retriable };
  if (status === 504) return { code: 'TIMEOUT', message, retriable };
  return { code: status < 500 ? 'INVALID_REQUEST' : 'INFERENCE_FAILED', message, retriable };
}
