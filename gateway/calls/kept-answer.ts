import type { Context } from 'hono';
import { ApiError, invalidField, shown } from '../errors/api-error.ts';
import type { MergedSink, OpenText } from '../generation/merge-streams.ts';
import type { ReceiptTerms } from '../generation/receipt.ts';
import { TextStream } from '../generation/text-stream.ts';
import { marksIn, readAs, thinkingLimit } from '../generation/thinking-families.ts';
import type { Thinking } from '../generation/thinking-parser.ts';
import type { CallSyntax } from '../generation/tool-call-parser.ts';

import type { DurableJob, Job } from '../jobs/job.ts';
import type { JobFacts, Jobs } from '../jobs/jobs.ts';
import type { StoredAnswer } from '../jobs/stored-answer.ts';
import { JournalRefusal } from '../journal/journal-error.ts';
import type { Idempotency, JobRecord } from '../journal/records.ts';
import { asList, asObject, JSON_TYPE, jsonText, memberOf } from '../json/json-values.ts';
import type { Model } from '../models/model.ts';
import { type GenerateRequest, GenerationError, type TokenSink } from '../runner/runner.ts';
import { callersOf } from '../server/guard/caller.ts';
import type { RouteDeps } from '../server/route-group.ts';
import { eventStream, ResponseStream } from '../server/streams/response-stream.ts';
import { toApiError } from '../server/to-api-error.ts';
import type { Call, CallLog, Encoding, EventEncoder, EventOutlet, Facts, ParsedCall } from './call.ts';
import { requireSameBody } from './idempotency.ts';
import { withReceipts } from './receipts.ts';
import { thinkingAfter } from './thinking.ts';
import { offerTools, type ToolOffer } from './tool-offer.ts';
import { findModel, readServed, type UsableModel } from './use-model.ts';
import { WholeAnswer, whileWanted } from './whole-answer.ts';

/**
 * Answers whose jobs go on without their clients. Whoever comes, first or again, reads the job's tokens from the first one on, and
 * they become the same events.
 */

/** Throws a 400 on `field`, which asks for what is kept, if there is no journal. */
export function requireJournal({ isKeeping }: Pick<Jobs, 'isKeeping'>, field: string, value = 'true'): void {
  if (isKeeping) return;
  const message = `${field} needs a journal, which this server does not have: it was started with --journal-dir off, or its log says why`;
  throw invalidField({ code: 'no_journal', field, constraint: 'journal', message, value });
}

/** A call, and what its answer needs when it is read again. */
interface KeptCall extends Omit<ParsedCall, 'ignored'> {
  readonly body: unknown;
  readonly uuid: string;
  readonly requestId: string | undefined;
}

/** What is asked of the runner for a kept call, how its answer is read, and what is asked of its receipt. */
interface KeptRequests {
  readonly thinking: Thinking | undefined;
  readonly offer: ToolOffer | undefined;
  readonly requests: readonly GenerateRequest[];
  readonly receipt: ReceiptTerms | undefined;
}

/** Begins the job, and answers as its call asks. */
export async function beginKept(
  c: Context,
  deps: RouteDeps,
  job: Job,
  kept: KeptCall,
  { model, name, info, runner, release }: UsableModel,
  prepared: KeptRequests,
): Promise<Response> {
  const { call, encoding, log } = kept;
  const used = c.get('used');
  const [request, ...others] = prepared.requests;
  if (request === undefined || others.length > 0) throw new Error('A durable call has one choice.');
  const record = recordOf(c, kept, { model, name }, prepared);
  const durable = await deps.jobs.keep(job, { record, request, model, info, runner });
  // A job that waits or is parked keeps no model, whoever waits for its answer.
  release();
  log?.begun(request);
  onEnd(durable, () => {
    const { tokenIds, first } = durable.log.content;
    used.tokens_out = tokenIds.length;
    if (first !== undefined) used.tokens_cached = first.numCachedTokens;
    if (log !== undefined) logEnd(durable, log);
  });
  return answerKept(c, openedWith(deps, durable, model, { call, encoding }), -1);
}

/** What is kept of the call and its model. */
function recordOf(
  c: Context,
  { call, body, uuid, requestId }: KeptCall,
  { model, name }: Pick<UsableModel, 'model' | 'name'>,
  { thinking, offer, receipt }: KeptRequests,
): JobFacts['record'] {
  const { tokenizer } = model;
  const marks = call.stop.length > 0 ? marksIn({ tokenizer, thinking, toolCalls: offer?.calls }) : undefined;
  return {
    model: name,
    modelId: model.id,
    stop: call.stop,
    endsAtTimeLimit: !call.failsAtTimeLimit,
    route: c.req.path,
    body: jsonText(withoutPrompt(body, call.input.field)),
    ...(call.history && { history: call.history() }),
    uuid,
    ...(requestId === undefined ? {} : { requestId }),
    ...(thinking && { thinking: { ...thinking, format: marksOnly(thinking.format) } }),
    ...(marks && marks.size > 0 && { markIds: [...marks.keys()] }),
    ...(receipt && { receipt }),
  };
}

function marksOnly({ begin, end }: Thinking['format']): Thinking['format'] {
  return { begin, end };
}

/**
 * Makes room for the answer if its call asks for that. Undefined if it does not, or if there is none and it need not. Throws
 * JournalRefusal.
 */
export function storedAnswer(
  c: Context,
  deps: RouteDeps,
  kept: KeptCall,
  { model, name, info }: UsableModel,
  prepared: KeptRequests,
): StoredAnswer | undefined {
  const { call, encoding, uuid } = kept;
  const [request] = prepared.requests;
  if (call.stored === undefined || !deps.jobs.isKeeping || request === undefined) return undefined;
  const facts = { record: recordOf(c, kept, { model, name }, prepared), request, model, info };
  try {
    return deps.jobs.store(callersOf(c), encoding.jobId?.(uuid) ?? uuid, facts);
  } catch (error) {
    if (call.stored === 'if-possible' && error instanceof JournalRefusal) return undefined;
    throw error;
  }
}

/** The body without its prompt, which no answer repeats. It is still a body that its API takes. */
function withoutPrompt(body: unknown, field: string): object {
  const before = asObject(body);
  if (field === 'prompt_ids') return { ...before, [field]: [0] };
  if (field !== 'messages') return { ...before, [field]: '-' };
  // Some fields are about a last message of the assistant.
  const last = memberOf(asList(memberOf(before, field)).at(-1), 'role');
  const roles = last === 'assistant' ? ['user', 'assistant'] : ['user'];
  return { ...before, [field]: roles.map((role) => ({ role, content: '-' })) };
}

function onEnd({ job }: DurableJob, ended: () => void): void {
  if (job.isOver) ended();
  else job.signal.addEventListener('abort', ended);
}

function logEnd(durable: DurableJob, log: NonNullable<ParsedCall['log']>): void {
  const { end, tokenIds } = durable.log.content;
  if (end === undefined) return;
  if (end.kind === 'error') log.failed(end.error);
  else log.ended({ reason: reasonOf(end), numTokens: tokenIds.length });
  log.over();
}

function reasonOf(end: Exclude<NonNullable<DurableJob['log']['content']['end']>, { kind: 'error' }>) {
  if (end.kind === 'enough') return 'stop_sequence';
  return end.finish === 'stop_id' ? 'eos' : end.finish;
}

/** The answer to a request whose key has begun this job. Throws a 409 if that request had another body. */
export async function answerTwin(
  c: Context,
  deps: RouteDeps,
  asked: Pick<ParsedCall, 'call' | 'encoding'>,
  durable: DurableJob,
  sent: Idempotency | undefined,
): Promise<Response> {
  const { idempotency, id } = durable.record;
  if (idempotency !== undefined && sent !== undefined) requireSameBody(idempotency, sent);
  const opened = openedWith(deps, durable, await modelOfJob(durable, deps), asked);
  c.header(JOB_HEADER, id);
  return answerKept(c, opened, lastEventIdOf(c));
}

/** The header that has the id of a durable job. */
export const JOB_HEADER = 'x-runnel-job-id';
export const LAST_EVENT_HEADER = 'Last-Event-ID';

/**
 * The number of the last event that the client has; -1 without the header, for a client that has none. Throws a 400 if it
 * is no number.
 */
export function lastEventIdOf(c: Context): number {
  const header = c.req.header(LAST_EVENT_HEADER);
  if (header === undefined || header === '') return -1;
  if (/^\d{1,15}$/.test(header)) return Number(header);
  const message = `${LAST_EVENT_HEADER} must be the id of an event of this job, which is a number from 0 (got ${JSON.stringify(shown(header))})`;
  throw invalidField({ field: LAST_EVENT_HEADER, constraint: 'event_id', message, value: shown(header) });
}

/** A kept answer that can be read. */
export interface OpenedAnswer {
  readonly durable: DurableJob;
  readonly model: Model;
  readonly call: Call;
  readonly encoding: Encoding;
  readonly facts: Facts;
  readonly thinking: Thinking | undefined;
  readonly toolCalls: CallSyntax | undefined;
  /** That of the job, without what is not to be answered. */
  readonly record: JobRecord;
}

/**
 * Opens the answer of a job. parse: what the job's API makes of its body. Throws a 409 if the model's file has changed, and what
 * findModel and readServed throw.
 */
export async function openAnswer(
  deps: RouteDeps,
  durable: DurableJob,
  parse: (body: string) => Pick<ParsedCall, 'call' | 'encoding'>,
): Promise<OpenedAnswer> {
  const model = await modelOfJob(durable, deps);
  return openedWith(deps, durable, model, parse(durable.record.body));
}

async function modelOfJob({ record }: DurableJob, deps: RouteDeps): Promise<Model> {
  // The sole model may have got another name since, or have none yet.
  const model = await readServed(deps.models.single ?? findModel(record.model, deps));
  const { modelFile } = record;
  if (modelFile === model.file) return model;
  const message = `The model's file has changed since this job was begun, from ${modelFile} to ${model.file} (size, time and inode): its tokens can no longer be turned into text.`;
  throw new ApiError({ status: 409, code: 'model_changed', message });
}

function openedWith(
  deps: RouteDeps,
  durable: DurableJob,
  model: Model,
  { call, encoding }: Pick<ParsedCall, 'call' | 'encoding'>,
): OpenedAnswer {
  const { uuid, requestId, createdMs, modelId, numericsId, request } = durable.record;
  const { promptIds, sampling } = request;
  const { record } = durable;
  const toolCalls = call.tools && offerTools(call.tools, model, call.format?.grammar).calls;
  const thought = 'messages' in call.input ? thinkingAfter(model, promptIds) : undefined;
  const reading = { isInText: call.report?.thinkingInText ?? false, readsCalls: toolCalls !== undefined };
  const thinking = readAs(thought, reading);
  const facts: Facts = {
    ...{ uuid, requestId, createdMs, modelId, numericsId },
    // The parts of its time are not kept.
    ...{ preparedInMs: 0, modelInMs: 0, vramBytes: () => 0 },
    now: () => durable.endedMs ?? deps.now(),
    elapsedMs: () => (durable.endedMs ?? deps.now()) - createdMs,
    seed: sampling.seed,
    tokenizer: model.tokenizer,
    numPromptTokens: promptIds.length,
    ...{ numChoices: 1, numChoicesPerPrompt: 1 },
    maxTokensOut: deps.tokenLimits?.maxTokensOut ?? Number.POSITIVE_INFINITY,
    isKept: () => call.history !== undefined,
    beginsWithText: toolCalls === undefined && thinking === undefined,
  };
  return { durable, model, call, encoding, facts, thinking, toolCalls, record };
}

/** Answers as the call asks. last: the number of the last event that the client has. */
async function answerKept(c: Context, opened: OpenedAnswer, last: number): Promise<Response> {
  const { call, encoding, facts } = opened;
  if (call.isStreamed) return streamKept(c, opened, last);
  if (call.durable === 'background') return answerStage(c, opened);
  return answerWhole(c, encoding, facts, (whole) => {
    return readKept(opened, whole, () => whole.onError(stopping()));
  });
}

/** The events after the last one that the client has, past and future ones. */
export function streamKept(c: Context, opened: OpenedAnswer, last: number): Response {
  const { encoding, facts } = opened;
  const stream = streamOf(c, encoding);
  const outlet = new NumberedOutlet(stream, encoding, last);
  const sink = sinkOf(encoding.stream(facts, outlet));
  const onError = (thrown: unknown): void => {
    outlet.onFailure();
    sink.onError(thrown);
  };
  // When this process stops, the job goes on in the next one, and so does its client's reading. So the stream is cut,
  // without an event that says that the job has ended.
  return stream.respond(readKept(opened, { ...sink, onError }, () => stream.cut()));
}

/** The answer as it is now: in progress, or as its last event has it. */
export async function answerStage(c: Context, opened: OpenedAnswer): Promise<Response> {
  return c.body(await stageOf(opened), 200, { 'content-type': JSON_TYPE });
}

/** The same, as JSON. */
export async function stageOf(opened: OpenedAnswer): Promise<string> {
  const { durable, encoding, facts } = opened;
  let body = '';
  await new Promise<void>((resolve) => {
    const onStage = (stage: string): void => {
      body = stage;
    };
    const encoder = encoding.stages?.(facts, onStage, resolve);
    if (encoder === undefined || durable.endedMs === undefined) resolve();
    else readKept(opened, sinkOf(encoder), resolve);
  });
  return body;
}

function readKept(
  { durable: { log }, record, model, facts, thinking, toolCalls }: OpenedAnswer,
  sink: MergedSink,
  onSuspended: () => void,
): TextStream {
  const { request, stop, numericsId, thinkingLimit: limit } = record;
  const runner = { generate: (_: GenerateRequest, tokens: TokenSink) => log.read(tokens, onSuspended) };
  const { tokenizer } = facts;
  const options = { tokenizer, stop, minTokens: request.minTokens, thinking, toolCalls };
  const computed = { ...request, ...(limit && { thinkingLimit: thinkingLimit(limit, tokenizer) }) };
  const answered = { model, numericsId, requests: [computed], search: options };
  const receipted = withReceipts(sink, record.receipt, answered);
  return new TextStream(runner, request, options, {
    onPart: (part) => receipted.onPart(part, 0),
    onError: (thrown) => receipted.onError(thrown),
  });
}

function stopping(): GenerationError {
  const message =
    'The server is stopping; the job goes on in the next one. Send the request again with the same Idempotency-Key, or read the events of the job.';
  return new GenerationError('NOT_READY', message, { retriable: true });
}

/** A stream in the form that the API gives it. */
export function streamOf(c: Context, { form }: Pick<Encoding, 'form'>): ResponseStream {
  return form === undefined ? eventStream(c) : new ResponseStream(c, form.type, form);
}

/**
 * Numbers events from 0, and leaves out those up to `last`, which the client has. Server-sent events get their numbers as ids,
 * MessagePack has them as members, and lines are counted by their readers.
 */
class NumberedOutlet implements EventOutlet {
  readonly #outlet: EventOutlet;
  readonly #last: number;
  readonly #hasIds: boolean;
  nextId = 0;

  constructor(outlet: EventOutlet, { form }: Pick<Encoding, 'form'>, last: number) {
    this.#outlet = outlet;
    this.#last = last;
    this.#hasIds = form === undefined;
  }

  /**
   * What is written next says that the job has failed. A client may have more events than the journal, which had not kept all tokens
   * when a gateway died; it hears of the end nevertheless.
   */
  onFailure(): void {
    this.nextId = Math.max(this.nextId, this.#last + 1);
  }

  write(text: string): void {
    const id = this.nextId++;
    if (id > this.#last) this.#outlet.write(this.#hasIds ? `id: ${id}\n${text}` : text);
  }

  end(): void {
    this.#outlet.end();
  }
}

/** The encoder as a sink. Failures are logged as they are; the client sees only what toApiError lets through. */
export function sinkOf(encoder: EventEncoder, log: Partial<CallLog> = {}): MergedSink {
  return {
    onPart: (part, index) => {
      if (part.end !== undefined) log.ended?.(part.end);
      encoder.onPart(part, index);
    },
    onError: (thrown) => {
      log.failed?.(thrown);
      encoder.onFailure(toApiError(thrown));
    },
  };
}

/** Answers when the answer is complete. begin: has the sink get it. */
export async function answerWhole(
  c: Context,
  encoding: Encoding,
  facts: Facts,
  begin: (sink: WholeAnswer) => Pick<OpenText, 'cancel'>,
): Promise<Response> {
  const whole = new WholeAnswer(facts.numChoices);
  const choices = await whileWanted(c.req.raw.signal, begin(whole), whole);
  return c.body(encoding.whole(facts, choices), 200, { 'content-type': JSON_TYPE });
}
