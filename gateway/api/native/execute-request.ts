import type { Context } from 'hono';
import * as z from 'zod';
import type { Call, ParsedCall } from '../../calls/call.ts';
import { ApiError } from '../../errors/api-error.ts';
import { JSON_TYPE } from '../../json/json-text.ts';
import { parseBody } from '../body.ts';
import { checkDurable, durable } from '../durable-field.ts';
import * as fields from '../fields.ts';
import { readBytes, readJsonText, requireMediaType } from '../json.ts';
import { MSGPACK_TYPE, unpackMsgpack } from '../msgpack.ts';
import { checkMinTokens, samplingOf, tokenConstraints } from '../sampling-fields.ts';
import { executeEncoding } from './event-stream.ts';

export const MAX_PROMPT_CHARACTERS = 32_768;
export const MAX_EXECUTE_TOKENS = 2048;
const STOP_LIMITS: fields.StopLimits = { maxCount: 4, maxCharacters: 100 };

const prompt = fields.text('prompt', MAX_PROMPT_CHARACTERS);
const promptIds = fields.tokenIds('prompt_ids', 1, Number.POSITIVE_INFINITY);

// The fields are in the order in which faults are reported.
const schema = z.strictObject({
  job_id: fields.nonEmpty('job_id'),
  prompt: prompt.optional(),
  prompt_ids: promptIds.optional(),
  max_tokens: fields.integer('max_tokens', 1, MAX_EXECUTE_TOKENS).default(MAX_EXECUTE_TOKENS),
  temperature: fields.float('temperature', 0, 2).default(1),
  top_p: fields.float('top_p', 0, 1).default(1),
  top_k: fields.integer('top_k', 0, 2 ** 32 - 1).default(0),
  repetition_penalty: fields.floatAbove('repetition_penalty', 0, 2).default(1),
  stop: fields.stopSequences('stop', STOP_LIMITS).default([]),
  min_p: fields.float('min_p', 0, 1).default(0),
  seed: fields.seed('seed').optional(),
  ...tokenConstraints,
  priority: fields.priority,
  /** Whether the stream has `metrics` events. */
  metrics: z.boolean().default(false),
  /** Whether `token` and `end` events have the tokens' ids. */
  token_ids: z.boolean().default(false),
  /** Whether the `end` event says how long each part took. */
  timings: z.boolean().default(false),
  durable,
});

/** The fields of POST /execute. */
export const executeFields = schema.shape;

/** The body of POST /execute, checked and with its defaults. It has exactly one of `prompt` and `prompt_ids`. */
export type ExecuteRequest = z.output<typeof schema>;

// There are two schemas because zod checks a rule across fields only if every field is valid, and all faults are to be
// reported at once.
const withText = schema.extend({ prompt }).superRefine(checkRequest);
const withIds = schema
  .extend({ prompt: fields.excludedBy('prompt', 'prompt_ids'), prompt_ids: promptIds })
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
  return hasPromptIds(body) ? { ...parseBody(withIds, body), prompt: undefined } : parseBody(withText, body);
}

/** The same, as a call. */
export function parseExecute(body: unknown, c: Context): ParsedCall & { readonly request: ExecuteRequest } {
  const request = parseExecuteRequest(body);
  const { prompt: text, prompt_ids: ids } = request;
  const call: Call = {
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
    deadlineMs: parseDeadline(c.req.header(DEADLINE_HEADER)),
    failsAtTimeLimit: true,
  };
  return { call, ignored: [], encoding: executeEncoding(c, request), request };
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
  const fieldErrors = [{ field: DEADLINE_HEADER, constraint: 'deadline', message, value: header }];
  throw new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
}

function hasPromptIds(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'prompt_ids' in body && body.prompt_ids !== null;
}

/** Describes sampling parameters that are allowed but rarely meant. They are logged, and the request is obeyed. */
export function unusualSampling(request: ExecuteRequest): string[] {
  const { top_k, top_p, min_p, temperature } = request;
  const sentences = [];
  if (top_k > 0 && top_k < 10 && top_p < 0.5) {
    sentences.push(`top_k ${top_k} and top_p ${top_p} together leave very few tokens to choose from`);
  }
  if (min_p > 0.5 && temperature < 0.5) {
    sentences.push(
      `min_p ${min_p} and temperature ${temperature} together leave very few tokens to choose from`,
    );
  }
  return sentences;
}

/** Reads the body of a native request, JSON or MessagePack; both have the same values. */
export async function readBody(c: Context): Promise<unknown> {
  const type = requireMediaType(c, [JSON_TYPE, MSGPACK_TYPE]);
  if (type === JSON_TYPE) return readJsonText(c);
  return unpackMsgpack(new Uint8Array(await readBytes(c)));
}
