import { isUtf8 } from 'node:buffer';
import { type Context, Hono } from 'hono';
import type { LineCall, LineRoutes } from '../batches/batch-run.ts';
import { answer } from '../calls/answer.ts';
import type { Call, ParsedCall } from '../calls/call.ts';
import { answerTwin } from '../calls/kept-answer.ts';
import { type ApiError, unsupported } from '../errors/api-error.ts';
import { JournalRefusal } from '../journal/journal-error.ts';
import { JSON_TYPE, jsonText, memberOf } from '../json/json-values.ts';
import { UnknownModelError } from '../models/model-registry.ts';
import { cancelled } from '../runner/runner.ts';
import { failureLog } from '../server/request-log.ts';
import type { RouteDeps, RouteGroup } from '../server/route-group.ts';
import { toApiError } from '../server/to-api-error.ts';
import { inBackground } from '../system/caller.ts';
import type { Codec } from './body.ts';
import { openAiErrorBody } from './error-bodies.ts';
import { parseJson } from './json.ts';
import { chat } from './openai/chat-request.ts';
import { completions } from './openai/completion-request.ts';
import { embedding } from './openai/embeddings.ts';
import { RESPONSES_PATH, responses } from './responses/responses.ts';

/**
 * The routes of lines: an application of their own without guard and socket, since a line was admitted with its batch. A call that
 * can be a durable job is one, by an id of its line: asked for again after a death, it is found, and goes on.
 */

/** Seconds before a line is sent again, where nobody knows better. */
const retrySec = 1;

const CODECS: Readonly<Record<string, Codec>> = {
  '/v1/chat/completions': chat,
  '/v1/completions': completions,
  [RESPONSES_PATH]: responses,
};

interface Env {
  Bindings: { readonly call: LineCall; retryAfterMs?: number };
}

export function lineRoutes(deps: RouteDeps, group: RouteGroup): LineRoutes {
  const app = new Hono<Env>();
  app.use(async (c, next) => {
    const { owner, sharer, cacheSalt } = c.env.call;
    c.set('group', group);
    c.set('used', {});
    c.set('caller', inBackground(sharer));
    c.set('cacheSalt', bytesOf(cacheSalt));
    if (owner !== '') c.set('keyDigest', bytesOf(owner));
    if (owner !== '') c.set('keptKeyDigest', () => bytesOf(owner));
    const requestId = deps.ids.uuid();
    c.set('requestId', requestId);
    c.header('x-request-id', requestId);
    await next();
  });
  for (const [path, { parse }] of Object.entries(CODECS))
    app.post(path, (c) => answerLine(c, deps, c.env.call, parse(c.env.call.body)));
  app.post('/v1/embeddings', embedding(deps));
  app.onError((thrown, c) => {
    failureLog(deps.log, c)(thrown);
    const error = toApiError(thrown);
    if (mayPass(error)) c.env.retryAfterMs = 1000 * (error.retryAfterSec ?? retrySec);
    return c.json(group.errorAnswer(c, error).body, error.status);
  });
  return {
    modelOf: ({ model }) => modelOf(typeof model === 'string' ? model : undefined, deps),
    parse: (bytes) => {
      if (!isUtf8(bytes)) throw new SyntaxError('a line is not UTF-8');
      return parseJson(bytes.toString());
    },
    answer: async (call) => {
      const { endpoint, body, signal } = call;
      const asked = { method: 'POST', headers: { 'content-type': JSON_TYPE }, body: jsonText(body), signal };
      const env: Env['Bindings'] = { call };
      const response = await app.fetch(new Request(`http://lines${endpoint}`, asked), env);
      const requestId = response.headers.get('x-request-id') ?? '';
      const { status } = response;
      try {
        return { status, requestId, body: await response.text(), retryAfterMs: env.retryAfterMs };
      } catch (thrown) {
        // The answer has broken off after its header.
        const error = toApiError(thrown);
        const body = JSON.stringify(openAiErrorBody(error));
        return { status: error.status, requestId, body, retryAfterMs: undefined };
      }
    },
    forget: async ({ owner, jobId }) => {
      try {
        await deps.jobs.forget([owner], jobId, cancelled());
      } catch (error) {
        // Nobody is told that it is forgotten, and a batch that waited for that would not end in this process.
        if (!(error instanceof JournalRefusal && error.reason === 'failed')) throw error;
      }
    },
  };
}

/** What a batch waits for until it expires, besides what is said to pass: a model that somebody mends, and the next gateway. */
const WAITED_FOR = ['worker_unhealthy', 'journal_failed'];

/** Whether the line is to be sent again. 409: the file of the model has changed since the job of the line was begun, so it is begun anew. */
function mayPass({ code, retriable, status }: ApiError): boolean {
  return retriable || WAITED_FOR.includes(code) || status === 409;
}

/** All names of one model are one name here. */
function modelOf(name: string | undefined, { models }: RouteDeps): string {
  try {
    return models.expect(name).names[0] ?? '';
  } catch (error) {
    if (error instanceof UnknownModelError) return '';
    throw error;
  }
}

async function answerLine(
  c: Context,
  deps: RouteDeps,
  { owner, jobId, body }: LineCall,
  { call: asked, ...parsed }: ParsedCall,
): Promise<Response> {
  if (asked.isStreamed) throw notInLines('stream');
  if (asked.durable === 'background') throw notInLines('background');
  if (asked.stored === 'required') throw notInLines('store');
  if (memberOf(body, 'previous_response_id') != null) {
    const message =
      'previous_response_id is not supported in a line of a batch; send the whole conversation as input';
    throw unsupported('previous_response_id', message);
  }
  // The job of a line is forgotten when the batch has its answer, which nothing can continue then.
  const { durable: _asked, stored: _kept, history: _said, ...plain } = asked;
  const call: Call = isOneAnswer(asked) ? { ...plain, durable: 'durable', jobId } : plain;
  const kept = await deps.jobs.open([owner], jobId);
  if (kept !== undefined) return answerTwin(c, deps, { ...parsed, call }, kept, undefined);
  return answer(c, deps, { ...parsed, call }, body);
}

/** What a durable job can be. Another call is computed again, from its beginning, if the gateway dies. */
function isOneAnswer({ numChoices = 1, input, report = {} }: Call): boolean {
  if (report.isEchoed || report.timings) return false;
  return numChoices === 1 && !('prompts' in input && input.prompts.length > 1);
}

function notInLines(field: string): ApiError {
  return unsupported(
    field,
    `${field} is not supported in a line of a batch, whose answer is written when it is whole; leave it out`,
  );
}

function bytesOf(digits: string): Uint8Array {
  return Uint8Array.from(Buffer.from(digits, 'hex'));
}
