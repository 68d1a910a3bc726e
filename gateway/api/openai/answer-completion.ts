import { randomUUID } from 'node:crypto';
import type { Context } from 'hono';
import { readAnswers } from '../../generation/merge-streams.ts';
import { endingAtTimeLimit } from '../../generation/time-limited-runner.ts';
import type { Model } from '../../models/model.ts';
import type { GenerateRequest } from '../../runner/runner.ts';
import type { AppDeps } from '../../server/app.ts';
import { sseResponse } from '../../server/streams/sse.ts';
import { logFailure } from '../../telemetry/request-log.ts';
import { type ChoiceFormat, type Completion, completionEvents, wholeCompletion } from './completion.ts';
import { type EchoOptions, withPrompts } from './echo.ts';
import type { SharedFields } from './shared-fields.ts';

interface CompletionJob {
  readonly idPrefix: string;
  readonly model: Model;
  readonly shape: ChoiceFormat;
  readonly numPromptTokens: number;
  /** One for each choice, in the order of the choices. */
  readonly requests: readonly GenerateRequest[];
  readonly request: Pick<SharedFields, 'model' | 'stream' | 'stream_options' | 'stop' | 'min_tokens' | 'n'>;
  /** Undefined unless each answer is to begin with its prompt. */
  readonly echo?: Pick<EchoOptions, 'isPromptOnly'> | undefined;
}

/** The last part of the way of OpenAI's generating routes: generate, and answer whole or as a stream. */
export async function answerCompletion(c: Context, deps: AppDeps, job: CompletionJob): Promise<Response> {
  const { model, shape, requests, request, echo } = job;
  const { tokenizer } = model;
  const stream = new AbortController();
  const signal = AbortSignal.any([stream.signal, c.req.raw.signal]);
  const options = { tokenizer, stop: request.stop, minTokens: request.min_tokens };
  const answers = readAnswers(endingAtTimeLimit(deps.runner), requests, options, signal);
  const promptIds = requests.map((each) => each.promptIds);
  const steps = echo === undefined ? answers : withPrompts(answers, { tokenizer, promptIds, ...echo });
  const completion: Completion = {
    id: job.idPrefix + randomUUID(),
    created: Math.floor(deps.now() / 1000),
    model: request.model,
    numPromptTokens: job.numPromptTokens,
    numChoices: requests.length,
    numChoicesPerPrompt: request.n,
  };
  if (!request.stream) return c.json(await wholeCompletion(completion, shape, steps));
  const includeUsage = request.stream_options?.include_usage ?? false;
  const events = completionEvents(completion, shape, steps, {
    includeUsage,
    onError: (thrown) => logFailure(deps.log, c, thrown),
  });
  return sseResponse(c, events, { onCancel: () => stream.abort(), onEnd: () => {} });
}
