import type { Context } from 'hono';
import { accepts } from 'hono/accepts';
import * as z from 'zod';
import type { Encoding, EventEncoder, EventOutlet, Facts } from '../../calls/call.ts';
import type { ApiError } from '../../errors/api-error.ts';
import { timingsSchema } from '../../generation/answer-timings.ts';
import type { AnswerEnd, AnswerPart } from '../../generation/text-stream.ts';
import { jsonText } from '../../json/json-values.ts';
import { GenerationError, type GenerationErrorCode } from '../../runner/runner.ts';
import { namedEvent } from '../../server/streams/response-stream.ts';
import { mark, markFields, receipted, receiptFields } from '../answer-fields.ts';
import { MSGPACK_TYPE, packMsgpack } from '../msgpack.ts';

/**
 * The events of POST /execute: one `started`, then `token`s, with `metrics` among them if asked for, then exactly one `end` or
 * `error`, and nothing after.
 */

/** A 64-bit integer. The JSON has all of its digits. */
const seed = z.bigint().meta({ type: 'integer' });

const ids = z.array(z.int()).readonly().optional();

/** The data of each event, by the event's name. */
export const executeEventSchemas = {
  started: z.object({
    job_id: z.string(),
    model: z.string(),
    started_at: z.string(),
    seed,
  }),
  token: z.object({
    t: z.string(),
    i: z.int(),
    ids,
  }),
  metrics: z.object({
    tokens_per_sec: z.number(),
    vram_bytes: z.int(),
  }),
  end: z.object({
    tokens_out: z.int(),
    decode_time_ms: z.int(),
    stop_reason: z.enum(['eos', 'stop_sequence', 'max_tokens', 'time_limit']),
    stop_sequence_matched: z.string().nullable(),
    seed,
    cached_tokens: z.int(),
    ...markFields,
    timings: timingsSchema.optional(),
    ...receiptFields,
    ids,
  }),
  error: z.object({
    code: z.enum(['VRAM_OOM', 'CANCELLED', 'TIMEOUT', 'INVALID_REQUEST', 'INFERENCE_FAILED']),
    message: z.string(),
    retriable: z.boolean(),
  }),
};

type Schemas = typeof executeEventSchemas;
type Data<Name extends keyof Schemas> = Readonly<z.infer<Schemas[Name]>>;
type NativeEvent = {
  [Name in keyof Schemas]: { readonly event: Name; readonly data: Data<Name> };
}[keyof Schemas];

/** The codes of errors of a generation; of the others it is INFERENCE_FAILED. */
const ERROR_CODES: Partial<Record<GenerationErrorCode, Data<'error'>['code']>> = {
  INVALID_REQUEST: 'INVALID_REQUEST',
  CANCELLED: 'CANCELLED',
  TIMEOUT: 'TIMEOUT',
  OUT_OF_MEMORY: 'VRAM_OOM',
};

/** A form of the events on the wire, in the encoding of the stream. id: the event's number, if it has one. */
interface EventForm {
  /** Encodes `token`, the most frequent event, without an object for the event. */
  token(data: Data<'token'>, id: number | undefined): string;
  event(event: NativeEvent, id: number | undefined): string;
}

/** What the events need of the request. */
interface ExecuteOptions {
  readonly job_id: string;
  /** Whether `token` and `end` have the tokens' ids. */
  readonly token_ids: boolean;
  readonly metrics: boolean;
}

/** The least time between two `metrics` events. */
const METRICS_INTERVAL_MS = 1000;

/** Writes an answer as its events, from `started` to the terminal one. */
class ExecuteEvents implements EventEncoder {
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
    this.#write({ event: 'end', data: this.#end(end) });
    this.#outlet.end();
  }

  onFailure(error: ApiError): void {
    this.#write({ event: 'error', data: errorData(error) });
    this.#outlet.end();
  }

  #end(end: AnswerEnd): Data<'end'> {
    return {
      tokens_out: end.numTokens,
      decode_time_ms: Math.round(this.#facts.elapsedMs()),
      stop_reason: end.reason,
      stop_sequence_matched: end.stopMatched,
      seed: this.#facts.seed,
      cached_tokens: end.numCachedTokens,
      ...mark(end),
      ...(end.timings && { timings: end.timings }),
      ...receipted(end),
      ...this.#idsUpTo(end.numTokens - 1),
    };
  }

  #writeMetrics(numTokens: number, isLast: boolean): void {
    const tokens_per_sec = this.#rate?.sample(numTokens, this.#facts.elapsedMs());
    if (tokens_per_sec === undefined || isLast) return;
    this.#write({ event: 'metrics', data: { tokens_per_sec, vram_bytes: this.#facts.vramBytes() } });
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

/** The data of the event `error`. */
export function errorData({ cause, status, message, retriable }: ApiError): Data<'error'> {
  const ofStatus = status === 504 ? 'TIMEOUT' : status < 500 ? 'INVALID_REQUEST' : 'INFERENCE_FAILED';
  const code = cause instanceof GenerationError ? (ERROR_CODES[cause.code] ?? 'INFERENCE_FAILED') : ofStatus;
  return { code, message, retriable };
}

/**
 * Writes the events in the form that the client accepts: server-sent events, or consecutive MessagePack maps, in which the
 * member `event` is the event's name. Both forms have the same events with the same values.
 */
export function executeEncoding(c: Context, request: ExecuteOptions): Encoding {
  const supports = ['text/event-stream', MSGPACK_TYPE];
  const type = accepts(c, { header: 'Accept', supports, default: 'text/event-stream' });
  const form = type === MSGPACK_TYPE ? packed : serverSent;
  return {
    whole: () => {
      throw new Error('All answers of /execute are streams.');
    },
    stream: (facts, outlet) => new ExecuteEvents(request, facts, form, outlet),
    ...(form === packed
      ? { form: { type: MSGPACK_TYPE, encoding: 'latin1' } }
      : { failureEvent: (error) => namedEvent('error', JSON.stringify(errorData(error))) }),
  };
}

const serverSent: EventForm = {
  token: ({ t, i, ids }) => {
    const tail = ids === undefined ? '' : `,"ids":[${ids.join(',')}]`;
    return `event: token\ndata: {"t":${JSON.stringify(t)},"i":${i}${tail}}\n\n`;
  },
  event: ({ event, data }) => namedEvent(event, jsonText(data)),
};

const packed: EventForm = {
  token: (data, id) => pack({ event: 'token', data }, id),
  event: pack,
};

/** Each character of the result is a byte. */
function pack({ event, data }: NativeEvent, id: number | undefined): string {
  const named = id === undefined ? { event } : { event, id };
  return Buffer.from(packMsgpack({ ...named, ...data })).toString('latin1');
}
