import type { Context } from 'hono';
import * as z from 'zod';
import type { Call, CallLog, ParsedCall } from '../../calls/call.ts';
import { invalidField } from '../../errors/api-error.ts';
import { JSON_TYPE, memberOf } from '../../json/json-values.ts';
import { GenerationError } from '../../runner/runner.ts';
import { callerField } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { toApiError } from '../../server/to-api-error.ts';
import { parseBody } from '../body.ts';
import {
  checkDurable,
  checkMinTokens,
  durable,
  receipt,
  samplingFields,
  samplingOf,
  tokenConstraints,
} from '../call-fields.ts';
import * as fields from '../fields.ts';
import { readBytes, readJsonText, requireMediaType } from '../json.ts';
import { MSGPACK_TYPE, unpackMsgpack } from '../msgpack.ts';
import { errorData, executeEncoding } from './events.ts';

const MAX_PROMPT_CHARACTERS = 32_768;
const MAX_EXECUTE_TOKENS = 2048;
const STOP_LIMITS: fields.StopLimits = { maxCount: 4, maxCharacters: 100 };

const prompt = fields.text('prompt', MAX_PROMPT_CHARACTERS);
const promptIds = fields.tokenIds('prompt_ids', 1, Number.POSITIVE_INFINITY);

// The fields are in the order in which faults are reported.
export const executeBody = z.strictObject({
  job_id: fields.nonEmpty('job_id'),
  prompt: prompt.optional(),
  prompt_ids: promptIds.optional(),
  max_tokens: fields.integer('max_tokens', 1, MAX_EXECUTE_TOKENS).default(MAX_EXECUTE_TOKENS),
  ...samplingFields(),
  repetition_penalty: fields.floatAbove('repetition_penalty', 0, 2).default(1),
  stop: fields.stopSequences('stop', STOP_LIMITS).default([]),
  min_p: fields.float('min_p', 0, 1).default(0),
  seed: fields.seed('seed').optional(),
  ...tokenConstraints,
  priority: fields.priority,
  metrics: z.boolean().default(false),
  token_ids: z.boolean().default(false),
  timings: z.boolean().default(false),
  durable,
  receipt,
});

/** The body of POST /execute, checked and with its defaults. It has exactly one of `prompt` and `prompt_ids`. */
export type ExecuteRequest = z.output<typeof executeBody>;

// There are two schemas because zod checks a rule across fields only if every field is valid, and all faults are to be
// reported at once.
const withText = executeBody.extend({ prompt }).superRefine(checkRequest);
const excluded = z.unknown().superRefine((_, ctx) => fields.refuseBoth(ctx, 'prompt', 'prompt_ids', []));
const withIds = executeBody
  .extend({ prompt: excluded.optional(), prompt_ids: promptIds })
  .superRefine(checkRequest);

function checkRequest(
  request: Pick<ExecuteRequest, 'min_tokens' | 'max_tokens' | 'durable' | 'metrics' | 'timings'>,
  ctx: z.RefinementCtx,
): void {
  checkDurable(ctx, request);
  const maxTokens = { name: 'max_tokens', value: request.max_tokens, fallback: MAX_EXECUTE_TOKENS };
  checkMinTokens(ctx, request.min_tokens, maxTokens);
}

/** Throws a 400 that lists every field at fault. */
export function parseExecuteRequest(body: unknown): ExecuteRequest {
  const hasIds = (memberOf(body, 'prompt_ids') ?? null) !== null;
  return hasIds ? { ...parseBody(withIds, body), prompt: undefined } : parseBody(withText, body);
}

/** The same, as a call. */
export function parseExecute(body: unknown, c: Context): ParsedCall & { readonly request: ExecuteRequest } {
  const request = parseExecuteRequest(body);
  const call = { ...executeCall(request), deadlineMs: parseDeadline(c.req.header(DEADLINE_HEADER)) };
  return { call, ignored: [], encoding: executeEncoding(c, request), request };
}

export function executeCall(request: ExecuteRequest): Call {
  const { prompt: text, prompt_ids: ids } = request;
  return {
    isStreamed: true,
    input:
      ids === undefined
        ? { field: 'prompt', prompts: [text ?? ''] }
        : { field: 'prompt_ids', prompts: [ids] },
    thinking: {},
    sampling: samplingOf(request),
    seed: request.seed,
    priority: request.priority,
    tokens: request,
    maxTokens: request.max_tokens,
    stop: request.stop,
    report: { timings: request.timings },
    jobId: request.job_id,
    durable: request.durable ? 'durable' : undefined,
    receipt: request.receipt,
    failsAtTimeLimit: true,
  };
}

export const DEADLINE_HEADER = 'X-Deadline';

/** A date and time with a zone. Without a zone, two machines would read two moments. */
const ISO_8601 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/;

/**
 * The moment after which the client wants no answer, in milliseconds since 1970; undefined without the header. Throws a
 * 400 if it cannot be read.
 */
function parseDeadline(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const deadlineMs = /^\d{1,15}$/.test(header)
    ? Number(header)
    : ISO_8601.test(header)
      ? Date.parse(header)
      : Number.NaN;
  if (!Number.isNaN(deadlineMs)) return deadlineMs;
  const message = `${DEADLINE_HEADER} must be Unix milliseconds or an ISO 8601 time with a zone, such as 2026-01-02T03:04:05Z (got ${JSON.stringify(header)})`;
  throw invalidField({ field: DEADLINE_HEADER, constraint: 'deadline', message, value: header });
}

/** Describes sampling parameters that are allowed but rarely meant. They are logged, and the request is obeyed. */
export function unusualSampling(request: ExecuteRequest): string[] {
  const { top_k, top_p, min_p, temperature } = request;
  const pairs = [
    ...(top_k > 0 && top_k < 10 && top_p < 0.5 ? [`top_k ${top_k} and top_p ${top_p}`] : []),
    ...(min_p > 0.5 && temperature < 0.5 ? [`min_p ${min_p} and temperature ${temperature}`] : []),
  ];
  return pairs.map((pair) => `${pair} together leave very few tokens to choose from`);
}

/** Reads the body of a native request, JSON or MessagePack; both have the same values. */
export async function readBody(c: Context): Promise<unknown> {
  const type = requireMediaType(c, [JSON_TYPE, MSGPACK_TYPE]);
  if (type === JSON_TYPE) return readJsonText(c);
  return unpackMsgpack(new Uint8Array(await readBytes(c)));
}

/** The client chooses the job id and may choose a long one; log lines must stay short. */
const MAX_LOGGED_CHARACTERS = 128;

/** The log of one job: how it began, how it ended and how long it took. */
export function executeLog(c: Context, deps: RouteDeps, request: ExecuteRequest): CallLog {
  const log = deps.log.child({
    job_id: request.job_id.slice(0, MAX_LOGGED_CHARACTERS),
    correlation_id: c.get('correlationId'),
    ...callerField(c),
    ...c.get('trace'),
  });
  // Not the context, which has the body: a job may last long.
  const used = c.get('used');
  let startedMs = deps.monotonicNow();
  let outcome: object = { outcome: 'client_gone' };
  return {
    begun({ promptIds, maxTokens }) {
      startedMs = deps.monotonicNow();
      log.info({ event: 'execute_start', prompt_tokens: promptIds.length, max_tokens: maxTokens });
      for (const msg of unusualSampling(request)) log.warn({ event: 'unusual_sampling', msg });
    },
    ended({ reason, numTokens }) {
      outcome = { outcome: reason, tokens_out: numTokens };
    },
    failed(thrown) {
      const { code, message } = errorData(toApiError(thrown));
      outcome = { outcome: code === 'CANCELLED' ? 'cancelled' : 'error', code };
      if (code === 'CANCELLED') return;
      // The message says all of an expected error. An unexpected one is logged with its stack.
      const details = thrown instanceof GenerationError ? {} : { err: thrown };
      log.error({ event: 'error', code, msg: message, ...details });
    },
    over() {
      const duration_ms = Math.round(deps.monotonicNow() - startedMs);
      log.info({ event: 'execute_end', duration_ms, ...used, ...outcome });
    },
  };
}
