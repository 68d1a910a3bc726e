import type { Context } from 'hono';
import * as z from 'zod';
import type { UsableModel } from '../../calls/use-model.ts';
import { ApiError, shown } from '../../errors/api-error.ts';
import { TextStream } from '../../generation/text-stream.ts';
import type { DurableJob } from '../../journal/durable-job.ts';
import { JobExistsError } from '../../journal/journal-error.ts';
import type { Idempotency } from '../../journal/records.ts';
import type { LogEnd } from '../../journal/token-log.ts';
import { cancelled, type GenerateRequest } from '../../runner/runner.ts';
import { keptCallerOf } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { keyInUse, requireSameBody } from '../idempotency.ts';
import { modelOfJob, requireJobs } from '../kept-jobs.ts';
import { nativeStream } from './event-stream.ts';
import { ExecuteEvents, nativeErrorEvent } from './events.ts';
import type { ExecuteLog } from './execute-log.ts';
import type { ExecuteRequest } from './execute-request.ts';
import { jobIdInUse } from './jobs.ts';
import { LAST_EVENT_HEADER, numbered, parseLastEventId } from './numbered-events.ts';

/** Jobs of POST /execute that go on without their clients, and the events that clients read when they come back. */

/** The parts of the request that its events need; they are kept in the journal. */
const viewSchema = z.object({
  model: z.string(),
  token_ids: z.boolean(),
});

type View = z.output<typeof viewSchema>;

/** A request for a durable job, and what to begin it with. */
export interface DurableStart {
  readonly request: ExecuteRequest;
  readonly generate: GenerateRequest;
  readonly usable: UsableModel;
  readonly log: ExecuteLog;
  /** Aborted if the client cancels the job before it has begun. */
  readonly signal: AbortSignal;
  readonly idempotency: Idempotency | undefined;
}

/** Begins the job and streams its events. Throws a 409 if the caller has a job with this id. */
export async function beginDurable(
  c: Context,
  deps: RouteDeps,
  { request, generate, usable, log, signal, idempotency }: DurableStart,
): Promise<Response> {
  const { job_id, stop, token_ids } = request;
  const { model, name, info, runner } = usable;
  const view: View = { model: model.id, token_ids };
  const caller = keptCallerOf(c);
  try {
    const jobs = requireJobs(deps, 'durable');
    const job = await jobs.start({
      record: {
        kind: 'execute',
        caller,
        id: job_id,
        model: name,
        stop,
        endsAtTimeLimit: false,
        ...(idempotency && { idempotency }),
        view: JSON.stringify(view),
      },
      request: generate,
      model,
      info,
      runner,
      onEnd: ({ log: { content } }) => {
        const { end, tokenIds } = content;
        if (end?.kind === 'error') log.last(nativeErrorEvent(end.error), end.error);
        log.end({ outcome: outcomeOf(end), tokens_out: tokenIds.length });
      },
    });
    if (signal.aborted) await jobs.cancel(job.entry, cancelled());
    return respond(c, deps, job, model.tokenizer, -1);
  } catch (error) {
    if (error instanceof JobExistsError) throw error.by === 'id' ? jobIdInUse(job_id) : keyInUse();
    throw error;
  }
}

/** The events of the job that was begun with this key; undefined if there is none. Throws a 409 if the body was another one. */
export async function eventsOfTwin(
  c: Context,
  deps: RouteDeps,
  idempotency: Idempotency,
): Promise<Response | undefined> {
  const jobs = requireJobs(deps, 'durable');
  const entry = jobs.findByKey('execute', idempotency.key);
  if (entry === undefined) return undefined;
  const { record } = await jobs.open(entry);
  if (record.idempotency !== undefined) requireSameBody(record.idempotency, idempotency);
  return durableEvents(c, deps, entry.id);
}

/** GET /execute/{job_id}/events: the events after the last one that the client has, past and future ones. */
export async function durableEvents(c: Context, deps: RouteDeps, jobId: string): Promise<Response> {
  const last = parseLastEventId(c.req.header(LAST_EVENT_HEADER));
  const entry = deps.jobs?.find('execute', keptCallerOf(c), jobId);
  if (deps.jobs === undefined || entry === undefined) {
    const message = `There is no durable job ${JSON.stringify(shown(jobId))} here: it was not begun with "durable": true by this client, or its retention time is over.`;
    throw new ApiError({ status: 404, code: 'job_not_found', message, param: 'job_id' });
  }
  const job = await deps.jobs.open(entry);
  const { tokenizer } = await modelOfJob(job, deps);
  return respond(c, deps, job, tokenizer, last);
}

function viewOf({ record }: DurableJob): View {
  return viewSchema.parse(JSON.parse(record.view));
}

function outcomeOf(end: LogEnd | undefined): string {
  if (end?.kind !== 'finish') return 'stop_sequence';
  return end.finish === 'stop_id' ? 'eos' : end.finish;
}

function respond(c: Context, deps: RouteDeps, job: DurableJob, tokenizer: Tokenizer, last: number): Response {
  const { record, log } = job;
  const { model, token_ids } = viewOf(job);
  const { request, stop, createdMs, id } = record;
  const { stream, encoder } = nativeStream(c);
  const events = new ExecuteEvents(
    { job_id: id, model, started_at: new Date(createdMs).toISOString(), seed: request.sampling.seed },
    {
      tokenIds: token_ids,
      vramBytes: undefined,
      now: deps.monotonicNow,
      elapsedMs: () => (job.endedMs ?? deps.now()) - createdMs,
      onLast: () => {},
    },
    numbered(encoder, last),
    stream,
  );
  // When this process stops, the job goes on in the next one, and so does its client's reading. So the stream is cut,
  // without an event that says that the job has ended.
  const read = {
    generate: (_: GenerateRequest, sink: Parameters<typeof log.read>[0]) =>
      log.read(sink, () => stream.cut()),
  };
  const text = new TextStream(read, request, { tokenizer, stop, minTokens: request.minTokens }, events);
  return stream.respond(text);
}
