import type { Context, Handler } from 'hono';
import { stringify } from 'lossless-json';
import * as z from 'zod';
import type { EventOutlet } from '../../calls/call.ts';
import { thinkingBehind } from '../../calls/thinking.ts';
import { offerTools } from '../../calls/tool-offer.ts';
import type { UsableModel } from '../../calls/use-model.ts';
import { ApiError, shown } from '../../errors/api-error.ts';
import { TextStream } from '../../generation/text-stream.ts';
import type { Thinking } from '../../generation/thinking-parser.ts';
import type { CallSyntax } from '../../generation/tool-call-parser.ts';
import type { DurableJob } from '../../journal/durable-job.ts';
import type { DurableJobs } from '../../journal/durable-jobs.ts';
import type { JournalEntry } from '../../journal/journal.ts';
import { JobExistsError } from '../../journal/journal-error.ts';
import type { Idempotency } from '../../journal/records.ts';
import { JSON_TYPE } from '../../json/json-text.ts';
import { asObject } from '../../json/json-values.ts';
import type { Model } from '../../models/model.ts';
import { cancelled, type GenerateRequest, type TokenSink } from '../../runner/runner.ts';
import { keptCallerOf } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { eventStream } from '../../server/streams/sse.ts';
import { toApiError } from '../../server/to-api-error.ts';
import { keyInUse, requireSameBody } from '../idempotency.ts';
import { parseJson } from '../json.ts';
import { modelOfJob, requireJobs } from '../kept-jobs.ts';
import { toolWishOf } from '../tools.ts';
import type { DeletedResponse } from './answers.ts';
import { parseResponsesRequest, type ResponsesRequest } from './request.ts';
import { ResponseObject } from './response.ts';
import { ResponseEvents } from './response-events.ts';

/** Responses with `"background": true`: they continue without their clients, and the journal keeps them. */

const viewSchema = z.object({
  uuid: z.string(),
  /** The body of the request as JSON, with NO_INPUT as its input. */
  body: z.string(),
});

type View = z.output<typeof viewSchema>;

/** Replaces the input, which no answer repeats. */
const NO_INPUT = '-';

interface BackgroundRequest {
  readonly request: ResponsesRequest;
  /** The request to the runner. */
  readonly generate: GenerateRequest;
  readonly thinking: Thinking | undefined;
  readonly idempotency: Idempotency | undefined;
}

/** Starts the job and answers at once: with the response in progress, or with its events. body: the body as it was sent. */
export async function beginBackground(
  c: Context,
  deps: RouteDeps,
  body: unknown,
  { request, generate, thinking, idempotency }: BackgroundRequest,
  { model, info, runner }: UsableModel,
): Promise<Response> {
  const view: View = {
    uuid: idempotency === undefined ? deps.ids.uuid() : uuidOf(idempotency),
    body: stringify({ ...asObject(body), input: NO_INPUT }) ?? '',
  };
  const begun = requireJobs(deps, 'background').start({
    record: {
      kind: 'response',
      caller: keptCallerOf(c),
      id: responseId(view),
      model: request.model,
      stop: [],
      endsAtTimeLimit: true,
      ...(idempotency && { idempotency }),
      view: JSON.stringify(view),
    },
    request: generate,
    ...{ model, info, runner, thinking },
  });
  const job = await begun.catch((error: unknown) => {
    // Only the id that a key gives can be that of another response.
    throw error instanceof JobExistsError ? keyInUse() : error;
  });
  if (request.stream) return streamed(c, deps, job, model, -1);
  return c.body(keptOf(deps, job, model).response.inProgress(), 200, { 'content-type': JSON_TYPE });
}

/** The response that was begun with this key; undefined if there is none. Throws a 409 if the body was another one. */
export async function responseOfTwin(
  c: Context,
  deps: RouteDeps,
  { stream }: ResponsesRequest,
  idempotency: Idempotency,
): Promise<Response | undefined> {
  const jobs = requireJobs(deps, 'background');
  const entry = jobs.find('response', keptCallerOf(c), responseId({ uuid: uuidOf(idempotency) }));
  if (entry === undefined) return undefined;
  const job = await jobs.open(entry);
  const { idempotency: kept } = job.record;
  if (kept !== undefined) requireSameBody(kept, idempotency);
  const model = await modelOfJob(job, deps);
  return stream ? streamed(c, deps, job, model, -1) : answered(c, deps, job, model);
}

/** GET /v1/responses/ID of a kept response. */
export function reading(deps: RouteDeps): Handler {
  return async (c) => {
    const { jobs, entry } = find(c, deps);
    const { isStreamed, last } = parseQuery(c.req.query());
    const job = await jobs.open(entry);
    const model = await modelOfJob(job, deps);
    if (isStreamed) return streamed(c, deps, job, model, last);
    return answered(c, deps, job, model);
  };
}

export function cancelling(deps: RouteDeps): Handler {
  return async (c) => {
    const { jobs, entry } = find(c, deps);
    const job = await jobs.open(entry);
    await jobs.cancel(entry, cancelled());
    return answered(c, deps, job, await modelOfJob(job, deps));
  };
}

export function deleting(deps: RouteDeps): Handler {
  return async (c) => {
    const { jobs, entry } = find(c, deps);
    await jobs.forget(entry, cancelled());
    return c.json({ id: entry.id, object: 'response', deleted: true } satisfies DeletedResponse);
  };
}

/** The journal entry of the response. Throws a 501 if the server keeps no journal, a 404 if there is no such response. */
function find(c: Context, { jobs }: RouteDeps): { readonly jobs: DurableJobs; readonly entry: JournalEntry } {
  if (jobs === undefined) {
    const message =
      'Responses are not stored here, since the server keeps no journal (--journal-dir off, or its log says why): POST /v1/responses answers with all of one, and the next request sends it back in input.';
    throw new ApiError({ status: 501, code: 'not_supported', message });
  }
  const id = c.req.param('id') ?? '';
  const entry = jobs.find('response', keptCallerOf(c), id);
  if (entry !== undefined) return { jobs, entry };
  const message = `There is no response ${JSON.stringify(shown(id))} here: it was not begun with "background": true by this client, or its retention time is over. Others are not stored.`;
  throw new ApiError({ status: 404, code: 'response_not_found', message, param: 'id' });
}

const QUERY = ['stream', 'starting_after', 'include_obfuscation'];

/** last: the number of the last event that the client has, or -1. Throws a 400 for a parameter that cannot be obeyed. */
function parseQuery(query: Readonly<Record<string, string>>): { isStreamed: boolean; last: number } {
  const refuse = (name: string, message: string): ApiError =>
    new ApiError({ status: 400, code: 'unsupported_parameter', message: `${name} ${message}`, param: name });
  for (const name of Object.keys(query))
    if (!QUERY.includes(name)) throw refuse(shown(name), 'is not supported; leave it out');
  const { stream = 'false', starting_after: after, include_obfuscation: obfuscation = 'false' } = query;
  if (stream !== 'true' && stream !== 'false') throw refuse('stream', 'must be true or false');
  if (obfuscation !== 'false') throw refuse('include_obfuscation', 'is not supported; leave it out');
  const isStreamed = stream === 'true';
  if (after === undefined) return { isStreamed, last: -1 };
  if (!/^\d{1,15}$/.test(after)) throw refuse('starting_after', 'must be the sequence_number of an event');
  if (!isStreamed) throw refuse('starting_after', 'needs stream to be true');
  return { isStreamed, last: Number(after) };
}

function viewOf({ record }: DurableJob): View {
  return viewSchema.parse(JSON.parse(record.view));
}

function responseId({ uuid }: Pick<View, 'uuid'>): string {
  return `resp_${uuid}`;
}

/** A UUID made of the key (version 8), by which the response is found again. */
function uuidOf({ key }: Idempotency): string {
  const part = (from: number, length: number): string => key.slice(from, from + length);
  return `${part(0, 8)}-${part(8, 4)}-8${part(12, 3)}-a${part(15, 3)}-${part(18, 12)}`;
}

/** The response of a job. thinking and toolCalls: how it writes them; undefined if it cannot have any. */
interface Kept {
  readonly response: ResponseObject;
  readonly toolCalls: CallSyntax | undefined;
  readonly thinking: Thinking | undefined;
}

function keptOf(deps: RouteDeps, job: DurableJob, model: Model): Kept {
  const { uuid, body } = viewOf(job);
  const { createdMs, request: asked } = job.record;
  const request = parseResponsesRequest(parseJson(body));
  const wish = toolWishOf(request);
  const toolCalls = wish && offerTools(wish, model, request.text.grammar).calls;
  const thinking = thinkingBehind(model, asked.promptIds);
  const response = new ResponseObject({
    request,
    tokenizer: model.tokenizer,
    numPromptTokens: asked.promptIds.length,
    beginsWithText: toolCalls === undefined && thinking === undefined,
    now: () => job.endedMs ?? deps.now(),
    ...{ uuid, createdMs, isKept: true },
  });
  return { response, toolCalls, thinking };
}

function streamed(c: Context, deps: RouteDeps, job: DurableJob, model: Model, last: number): Response {
  const stream = eventStream(c);
  const kept = keptOf(deps, job, model);
  const options = { tokenizer: model.tokenizer, last };
  const events = new ResponseEvents(kept.response, options, stream);
  return stream.respond(read(job, model, kept, events, () => stream.cut()));
}

/** Answers with the response as it is now: in progress, or as its last event has it. */
async function answered(c: Context, deps: RouteDeps, job: DurableJob, model: Model): Promise<Response> {
  const kept = keptOf(deps, job, model);
  let text = kept.response.inProgress();
  if (job.endedMs !== undefined) {
    await new Promise<void>((resolve) => {
      const outlet: EventOutlet = { write() {}, end: resolve };
      const onStage = (stage: string): void => {
        text = stage;
      };
      const options = { tokenizer: model.tokenizer, onStage };
      read(job, model, kept, new ResponseEvents(kept.response, options, outlet), resolve);
    });
  }
  return c.body(text, 200, { 'content-type': JSON_TYPE });
}

function read(
  { log, record: { request, stop } }: DurableJob,
  { tokenizer }: Model,
  { toolCalls, thinking }: Kept,
  events: ResponseEvents,
  onSuspended: () => void,
): TextStream {
  const runner = { generate: (_: GenerateRequest, tokens: TokenSink) => log.read(tokens, onSuspended) };
  return new TextStream(
    runner,
    request,
    { tokenizer, stop, minTokens: request.minTokens, thinking, toolCalls },
    { onPart: (part) => events.onPart(part), onError: (thrown) => events.onFailure(toApiError(thrown)) },
  );
}
