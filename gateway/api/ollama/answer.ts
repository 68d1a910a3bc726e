import type { Context } from 'hono';
import { ApiError } from '../../errors/api-error.ts';
import { PartialAnswers, type TextSink, TextStream } from '../../generation/text-stream.ts';
import type { Thinking } from '../../generation/thinking-parser.ts';
import type { CallSyntax } from '../../generation/tool-call-parser.ts';
import type { Model } from '../../models/model.ts';
import type { GenerateRequest } from '../../runner/runner.ts';
import { senderOf } from '../../server/guard/caller.ts';
import { failureLog } from '../../server/request-log.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { ResponseStream } from '../../server/streams/response-stream.ts';
import { callDigits } from '../call-digits.ts';
import { JSON_TYPE } from '../json.ts';
import { jsonText } from '../json-text.ts';
import { type ContextLimit, tokensLeft } from '../prompt.ts';
import { findModel, type UsableModel, useModel } from '../use-model.ts';
import { WholeText, whileWanted } from '../whole-text.ts';
import { type Answer, AnswerLines, loadedAnswer, unloadedAnswer, wholeAnswer } from './answer-lines.ts';
import { servedName } from './model-name.ts';
import { contextOf, type Options, samplingOf } from './options.ts';
import { asksToUnload } from './requests.ts';
import { Timings } from './timings.ts';

interface Asked {
  readonly model: string;
  readonly stream: boolean;
  readonly keep_alive?: string | number | undefined;
  readonly options: Options;
}

interface Job {
  /** The field with the prompt. */
  readonly field: string;
  readonly textAs: Answer['textAs'];
  /** Encodes the prompt. Undefined if the request has none and only asks for the model to be loaded. */
  readonly ask: ((model: Model, limit: ContextLimit) => Promise<Question>) | undefined;
}

/** The encoded prompt of a request. */
export interface Question {
  readonly promptIds: readonly number[];
  /** Members of the runner's request besides the prompt. */
  readonly asked?: Pick<GenerateRequest, 'grammar' | 'vocabulary' | 'thinkingLimit'>;
  /** How the model writes its thinking; undefined if the answer cannot have any. */
  readonly thinking?: Thinking | undefined;
  /** How the model writes tool calls; undefined if the answer cannot have any. */
  readonly toolCalls?: CallSyntax | undefined;
}

/**
 * The common part of Ollama's generating routes: answers a body that has been read, by the model that it names, whole or
 * as a stream.
 */
export async function answer(c: Context, deps: RouteDeps, asked: Asked, job: Job): Promise<Response> {
  const name = servedName(asked.model, deps.models.names);
  const isLast = asksToUnload(asked);
  if (job.ask === undefined && isLast) return c.json(unload(name, deps, { ...asked, ...job }));
  const timings = new Timings(deps.monotonicNow);
  // No line can report the progress of loading, so a stream begins with its answer.
  const answered = await useModel(c, deps, { name }, (usable) => {
    timings.onModel();
    return answerBy(usable, timings, c, deps, asked, job);
  });
  // The model leaves when this answer and those of all others have ended.
  if (isLast && deps.isUnloadAllowed) findModel(name, deps).dismiss();
  return answered;
}

/** Has a model unloaded once nobody uses it, and says so. Throws a 400 if the operator keeps it loaded. */
function unload(
  name: string,
  deps: RouteDeps,
  asked: Pick<Asked, 'model'> & Pick<Job, 'textAs'>,
): ReturnType<typeof unloadedAnswer> {
  const model = findModel(name, deps);
  if (deps.isUnloadAllowed && model.dismiss()) return unloadedAnswer({ ...asked, now: deps.now });
  const why = deps.isUnloadAllowed
    ? 'it is pinned'
    : 'this server unloads no model for a request; --client-unload on allows it';
  const message = `keep_alive is 0, which asks for the model to be unloaded, but ${why}.`;
  throw new ApiError({ status: 400, code: 'unsupported_parameter', message, param: 'keep_alive' });
}

async function answerBy(
  { model, info, runner, api }: UsableModel,
  timings: Timings,
  c: Context,
  deps: RouteDeps,
  asked: Asked,
  { field, textAs, ask }: Job,
): Promise<Response> {
  const named = { model: asked.model, now: deps.now, textAs };
  if (ask === undefined) return c.json(loadedAnswer(named));
  const limit = contextOf(asked.options, info);
  const { promptIds, asked: more, thinking, toolCalls } = await ask(model, limit);
  const left = tokensLeft(promptIds, limit, field);
  const request = {
    promptIds,
    modelIdentity: info.modelIdentity,
    maxTokens: Math.min(asked.options.num_predict ?? left, left),
    minTokens: 0,
    stopIds: model.stopIds,
    sampling: samplingOf(asked.options, deps.ids),
    ...senderOf(c),
    api,
    ...more,
  };
  const { stop } = asked.options;
  const options = {
    tokenizer: model.tokenizer,
    stop,
    minTokens: 0,
    thinking,
    toolCalls,
    timings: true,
    partial: new PartialAnswers(),
  };
  const begin = (sink: TextSink) => new TextStream(runner, request, options, sink);
  const unique = callDigits(deps.ids.uuid());
  const answered: Answer = {
    ...named,
    numPromptTokens: promptIds.length,
    durations: (ofAnswer) => timings.durations(ofAnswer),
    callId: (call) => `call_${unique}_${call}`,
  };
  if (!asked.stream) {
    const whole = new WholeText();
    const finished = await whileWanted(c.req.raw.signal, begin(whole), whole);
    return c.body(jsonText(wholeAnswer(answered, finished)), 200, { 'content-type': JSON_TYPE });
  }
  const stream = new ResponseStream(c, 'application/x-ndjson');
  return stream.respond(begin(new AnswerLines(answered, failureLog(deps.log, c), stream)));
}
