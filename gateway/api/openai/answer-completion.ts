import type { Context } from 'hono';
import type { ApiError } from '../../errors/api-error.ts';
import { type MergedSink, mergeStreams, type OpenText } from '../../generation/merge-streams.ts';
import { PartialAnswers } from '../../generation/text-stream.ts';
import type { Thinking } from '../../generation/thinking-parser.ts';
import type { CallSyntax } from '../../generation/tool-call-parser.ts';
import type { Model } from '../../models/model.ts';
import type { GenerateRequest, Runner } from '../../runner/runner.ts';
import { logFailure } from '../../server/request-log.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { dataEvent, eventStream } from '../../server/streams/sse.ts';
import type { ModelWish } from '../use-model.ts';
import { whileWanted } from '../whole-text.ts';
import { type ChoiceFormat, type Completion, WholeCompletion } from './completion.ts';
import { CompletionEvents } from './completion-events.ts';
import { type EchoOptions, withPrompts } from './echo.ts';
import { openAiErrorBody } from './errors.ts';
import type { SharedFields } from './shared-fields.ts';

interface CompletionJob {
  readonly runner: Runner;
  readonly id: string;
  readonly model: Model;
  readonly numericsId: string;
  readonly shape: ChoiceFormat;
  readonly numPromptTokens: number;
  /** The requests, in the order of the choices. */
  readonly requests: readonly GenerateRequest[];
  readonly request: Pick<
    SharedFields,
    'model' | 'stream' | 'stream_options' | 'stop' | 'min_tokens' | 'n' | 'timings'
  >;
  /** Undefined unless answers may begin with thinking. */
  readonly thinking?: Thinking | undefined;
  /** Undefined unless answers may call tools. */
  readonly toolCalls?: CallSyntax | undefined;
  /** Undefined unless each answer begins with its prompt. */
  readonly echo?: Pick<EchoOptions, 'isPromptOnly'> | undefined;
}

/** The model that a request names, and how its stream reports a failure before the answer began. */
export function modelWish({ model, stream }: Pick<SharedFields, 'model' | 'stream'>): ModelWish {
  const failureEvent = (error: ApiError): string =>
    `${dataEvent(JSON.stringify(openAiErrorBody(error)))}${dataEvent('[DONE]')}`;
  return { name: model, ...(stream ? { failureEvent } : {}) };
}

/** Generates, and answers whole or as a stream: the last step of OpenAI's generating routes. */
export async function answerCompletion(c: Context, deps: RouteDeps, job: CompletionJob): Promise<Response> {
  const { model, shape, requests, request, thinking, toolCalls, echo } = job;
  const { tokenizer } = model;
  const { stop, min_tokens: minTokens, timings } = request;
  const partial = new PartialAnswers();
  const options = { tokenizer, stop, minTokens, thinking, toolCalls, timings, partial };
  const promptIds = requests.map((each) => each.promptIds);
  const begin = (sink: MergedSink): OpenText => {
    const heard = echo === undefined ? sink : withPrompts(sink, { tokenizer, promptIds, ...echo });
    return mergeStreams(job.runner, requests, options, heard);
  };
  const completion: Completion = {
    id: job.id,
    created: Math.floor(deps.now() / 1000),
    model: request.model,
    systemFingerprint: job.numericsId,
    numPromptTokens: job.numPromptTokens,
    numChoices: requests.length,
    numChoicesPerPrompt: request.n,
  };
  if (!request.stream) {
    const whole = new WholeCompletion(completion, shape);
    return c.json(await whileWanted(c.req.raw.signal, begin(whole), whole));
  }
  const stream = eventStream(c);
  const events = new CompletionEvents(
    completion,
    shape,
    {
      includeUsage: request.stream_options?.include_usage ?? false,
      onError: (thrown) => logFailure(deps.log, c, thrown),
    },
    stream,
  );
  return stream.respond(begin(events));
}
