import { Hono } from 'hono';
import * as z from 'zod';
import { encodePrompt, maxTokensWithin, requireKnownIds, stopIdsOf, tokensLeft } from '../../calls/prompt.ts';
import { useModel } from '../../calls/use-model.ts';
import { TextStream } from '../../generation/text-stream.ts';
import type { Model } from '../../models/model.ts';
import { memoryOf } from '../../models/model-registry.ts';
import { cancelled, type GenerateRequest, neutralSampling, type RunnerInfo } from '../../runner/runner.ts';
import { correlationIdOf } from '../../server/correlation.ts';
import { callerField, callerOf, keptCallerOf, senderOf } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { parseBody } from '../body.ts';
import * as fields from '../fields.ts';
import { idempotencyOf } from '../idempotency.ts';
import { requireJobs } from '../kept-jobs.ts';
import { DEADLINE_HEADER, parseDeadline } from './deadline.ts';
import { beginDurable, durableEvents, eventsOfTwin } from './durable-execute.ts';
import { nativeStream } from './event-stream.ts';
import { ExecuteEvents } from './events.ts';
import { executeLog } from './execute-log.ts';
import { type ExecuteRequest, parseExecuteRequest, readBody, unusualSampling } from './execute-request.ts';
import { failureEventFor } from './failure-event.ts';
import { Jobs } from './jobs.ts';

export const cancelSchema = z.strictObject({ job_id: fields.nonEmpty('job_id') });

/** The native API: a prompt in, its continuation as events. A client can come back to a durable job's events. */
export function executeRoutes(deps: RouteDeps): Hono {
  const app = new Hono();
  const jobs = new Jobs();

  app.post('/execute', async (c) => {
    const body = await readBody(c);
    const request = parseExecuteRequest(body);
    if (request.durable) requireJobs(deps, 'durable');
    const idempotency = idempotencyOf(c, body, 'durable', request.durable);
    if (idempotency !== undefined) {
      const events = await eventsOfTwin(c, deps, idempotency);
      if (events !== undefined) return events;
    }
    const deadlineMs = parseDeadline(c.req.header(DEADLINE_HEADER));
    const job = jobs.start(callerOf(c), request.job_id, request.durable);
    const signal = AbortSignal.any([c.req.raw.signal, job.signal]);
    const wish = { deadlineMs, failureEvent: failureEventFor(c), signal: job.signal, onFailed: job.finish };
    return useModel(c, deps, wish, async (usable) => {
      const { model, info, runner, api } = usable;
      const { promptIds, field } = await promptOf(request, model, info, signal);
      job.signal.throwIfAborted();
      const stopIds = stopIdsOf(request, model, info.vocabSize);
      const left = tokensLeft(promptIds, info, field);
      const maxTokens = maxTokensWithin(left, info, request.min_tokens, request.max_tokens);
      const seed = request.seed ?? deps.ids.seed();

      const generate: GenerateRequest = {
        promptIds,
        modelIdentity: info.modelIdentity,
        maxTokens,
        minTokens: request.min_tokens,
        stopIds,
        sampling: {
          ...neutralSampling,
          temperature: request.temperature,
          topK: request.top_k,
          topP: request.top_p,
          minP: request.min_p,
          repetitionPenalty: request.repetition_penalty,
          allowedTokenIds: request.allowed_token_ids,
          bannedTokenIds: request.banned_token_ids,
          seed,
        },
        ...senderOf(c),
        api,
        ...(deadlineMs === undefined ? {} : { deadlineMs }),
        ...(request.priority === 0 ? {} : { priority: request.priority }),
      };
      const names = { correlation_id: correlationIdOf(c), ...callerField(c), ...c.get('trace') };
      const log = executeLog(deps.log, request.job_id, names, deps.monotonicNow);
      const facts = { promptTokens: promptIds.length, maxTokens, unusual: unusualSampling(request) };
      if (request.durable) {
        const response = await beginDurable(c, deps, {
          request,
          generate,
          usable,
          log,
          signal: job.signal,
          idempotency,
        });
        log.start(facts);
        job.finish();
        return response;
      }
      const { stream, encoder } = nativeStream(c);
      const started_at = new Date(deps.now()).toISOString();
      const events = new ExecuteEvents(
        { job_id: request.job_id, model: model.id, started_at, seed },
        {
          tokenIds: request.token_ids,
          vramBytes: request.metrics ? () => memoryOf(runner.status().info).vram_bytes : undefined,
          now: deps.monotonicNow,
          onLast: log.last,
        },
        encoder,
        stream,
      );
      const text = new TextStream(
        runner,
        generate,
        {
          tokenizer: model.tokenizer,
          stop: request.stop,
          minTokens: request.min_tokens,
          timings: request.timings,
        },
        events,
      );
      log.start(facts);
      job.signal.addEventListener('abort', () => text.abort(cancelled()));
      return stream.respond(text, () => {
        job.finish();
        log.end();
      });
    });
  });

  app.get('/execute/:job_id/events', (c) => durableEvents(c, deps, c.req.param('job_id')));

  app.post('/cancel', async (c) => {
    const { job_id } = parseBody(cancelSchema, await readBody(c));
    const isPlain = await jobs.cancel(callerOf(c), job_id);
    // The journal, which cannot always be asked, knows nothing of a plain job.
    const durable = isPlain ? undefined : deps.jobs?.find('execute', keptCallerOf(c), job_id);
    if (durable !== undefined) await deps.jobs?.cancel(durable, cancelled());
    return c.json({ job_id }, 202);
  });

  return app;
}

/** The prompt's ids, and the field that the prompt came in. */
async function promptOf(
  request: ExecuteRequest,
  model: Model,
  info: RunnerInfo,
  signal: AbortSignal,
): Promise<{ promptIds: readonly number[]; field: string }> {
  const { prompt, prompt_ids } = request;
  if (prompt_ids !== undefined) {
    requireKnownIds(prompt_ids, info.vocabSize, (index) => `prompt_ids.${index}`);
    return { promptIds: prompt_ids, field: 'prompt_ids' };
  }
  if (prompt === undefined) throw new Error('A request without a prompt passed its check.');
  return { promptIds: await encodePrompt(prompt, model, info, 'prompt', signal), field: 'prompt' };
}
