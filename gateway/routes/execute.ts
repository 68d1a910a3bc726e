import { Hono } from 'hono';
import { z } from 'zod';
import * as fields from '../api/fields.ts';
import { readJson } from '../api/json.ts';
import { executeEvents } from '../api/native/events.ts';
import { parseExecuteRequest } from '../api/native/execute-request.ts';
import { sseResponse } from '../api/sse.ts';
import type { AppDeps } from '../app.ts';
import { readAnswer } from '../tokenizer/answer.ts';
import { Jobs } from './jobs.ts';
import { encodePrompt, requireReady, tokensLeft } from './prompt.ts';
import { randomSeed } from './random-seed.ts';

const cancelSchema = z.strictObject({ job_id: fields.nonEmpty('job_id') });

/** The native API: a prompt in, its continuation as events. */
export function executeRoutes(deps: AppDeps): Hono {
  const app = new Hono();
  const jobs = new Jobs();

  app.post('/execute', async (c) => {
    const request = parseExecuteRequest(await readJson(c));
    const { model, info } = requireReady(deps);
    const promptIds = encodePrompt(request.prompt, model, info, 'prompt');
    const maxTokens = Math.min(request.max_tokens, tokensLeft(promptIds, info, 'prompt'));
    const seed = request.seed ?? randomSeed();

    const job = jobs.start(request.job_id);
    try {
      const batches = deps.runner.generate(
        {
          promptIds,
          maxTokens,
          stopIds: model.stopIds,
          sampling: {
            temperature: request.temperature,
            topK: request.top_k,
            topP: request.top_p,
            minP: request.min_p,
            repetitionPenalty: request.repetition_penalty,
            seed,
          },
        },
        job.signal,
      );
      const answer = readAnswer(batches, { tokenizer: model.tokenizer, stop: request.stop });
      const started_at = new Date(deps.now()).toISOString();
      const started = { job_id: request.job_id, model: model.id, started_at, seed };
      return sseResponse(c, executeEvents(started, answer, deps.now), {
        onCancel: job.cancel,
        onEnd: job.finish,
      });
    } catch (error) {
      job.finish();
      throw error;
    }
  });

  app.post('/cancel', async (c) => {
    const { job_id } = fields.parseBody(cancelSchema, await readJson(c));
    jobs.cancel(job_id);
    return c.json({ job_id }, 202);
  });

  return app;
}
