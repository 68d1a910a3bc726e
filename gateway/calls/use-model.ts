import type { Context } from 'hono';
import { ApiError, shown } from '../errors/api-error.ts';
import type { Model } from '../models/model.ts';
import { type ServedModel, servedName, UnknownModelError } from '../models/model-registry.ts';
import type { Runner, RunnerInfo } from '../runner/runner.ts';
import { sharerOf } from '../server/guard/caller.ts';
import { failureLog } from '../server/request-log.ts';
import type { RouteDeps } from '../server/route-group.ts';
import { streamWhileLoading } from '../server/streams/loading-stream.ts';
import { toApiError } from '../server/to-api-error.ts';
import { settlesWithin, systemClock } from '../system/clock.ts';
import { type ContextLimit, notReady, requireReady } from './prompt.ts';

/** A model that takes requests, with its runner and the runner's limits. */
export interface UsableModel {
  readonly model: Model;
  /** The name by which the model is found; undefined if it is the only one and has no name. */
  readonly name: string | undefined;
  readonly info: RunnerInfo & ContextLimit;
  readonly runner: Runner;
  /** The API of the request, for GenerateRequest.api. */
  readonly api: string;
  /** Lets the model be unloaded or replaced before the answer is made: what goes on needs it no more, or finds it again. */
  readonly release: () => void;
}

export interface ModelParams {
  /** The name in the request; undefined: the default model. */
  readonly name?: string | undefined;
  /** Milliseconds since 1970. */
  readonly deadlineMs?: number | undefined;
  /** Same as Waiter.maxWaitMs. */
  readonly maxWaitMs?: number | undefined;
  /** Aborted when the request is not to be answered any more. It is also not answered if its client leaves. */
  readonly signal?: AbortSignal | undefined;
  /** Called when the request could not be answered, also if a stream has told its client so. */
  readonly onFailed?: () => void;
  /**
   * Makes the event for a failure; undefined if the request does not ask for server-sent events. While the model loads,
   * comments in the stream report the progress.
   */
  readonly failureEvent?: ((error: ApiError) => string) | undefined;
}

/** A request that waits longer than this for its model gets its stream begun. */
const loadingNoticeMs = 1000;

/**
 * Answers a request by the model that it names. The model is not unloaded before `answer` has returned the response.
 * Throws a 404 if no model has the name, and a 503 if the model takes no request and will not soon.
 */
export async function useModel(
  c: Context,
  deps: RouteDeps,
  wanted: ModelParams,
  answer: (usable: UsableModel) => Response | Promise<Response>,
): Promise<Response> {
  const { clock = systemClock, models } = deps;
  const { name, failureEvent, onFailed } = wanted;
  let served: ServedModel;
  try {
    served = models.single ?? findModel(name, deps);
  } catch (error) {
    onFailed?.();
    throw error;
  }
  let isAcquired = false;
  const answered = answerBy(c, deps, wanted, (usable) => {
    isAcquired = true;
    return answer(usable);
  });
  if (onFailed !== undefined) answered.catch(onFailed);
  if (served.loadState.state === 'loaded' || failureEvent === undefined) return answered;
  // During this wait the request can still be refused with an HTTP status.
  const isAnswered = await settlesWithin(answered.then(settled, settled), loadingNoticeMs, clock);
  if (isAnswered || isAcquired) return answered;
  const logFailure = failureLog(deps.log, c);
  return streamWhileLoading(c, answered, {
    clock,
    progress: () => progressOf(served),
    failure: (thrown) => {
      logFailure(thrown);
      return failureEvent(toApiError(thrown));
    },
  });
}

const settled = (): void => {};

async function answerBy(
  c: Context,
  deps: RouteDeps,
  { name, deadlineMs, maxWaitMs, signal: wanted }: ModelParams,
  answer: (usable: UsableModel) => Response | Promise<Response>,
): Promise<Response> {
  const { signal: present } = c.req.raw;
  const signal = wanted === undefined ? present : AbortSignal.any([present, wanted]);
  const waiter = { deadlineMs, maxWaitMs, signal, caller: sharerOf(c) };
  const { served, release: leave } = await deps.models.acquire(name, waiter).catch((error) => {
    // The gate knows that nobody waits any more, and not why.
    wanted?.throwIfAborted();
    throw error;
  });
  let isHeld = true;
  const release = (): void => {
    if (isHeld) leave();
    isHeld = false;
  };
  try {
    const { model, info } = requireReady(served);
    // Another model with another name may have replaced it.
    if (name !== undefined && !served.names.includes(servedName(name, served.names)))
      throw modelNotFound(name, deps);
    c.get('span')?.setAttributes({
      'gen_ai.provider.name': 'runnel',
      'gen_ai.request.model': name ?? model.id,
      'gen_ai.response.model': model.id,
    });
    return await answer({
      model: calledAs(name, model),
      name: served.names[0],
      info: { ...info, ...deps.tokenLimits },
      runner: served.runner,
      api: c.get('group').name,
      release,
    });
  } finally {
    release();
  }
}

/** The progress of loading in per cent, if it is known. */
function progressOf({ loadState: { state, progress } }: ServedModel): string {
  if (state !== 'loading') return 'waiting';
  return progress === undefined ? 'loading' : `loading ${Math.floor(progress * 100)} %`;
}

/** The model with this name; the default model without a name. Throws a 404 if no model has the name. */
export function findModel(name: string | undefined, deps: RouteDeps): ServedModel {
  try {
    return deps.models.find(name);
  } catch (error) {
    if (error instanceof UnknownModelError && name !== undefined) throw modelNotFound(name, deps);
    throw error;
  }
}

/**
 * A model of which only the files are needed. Works while no runner is up, and does not load the model. Throws a 404 or
 * 503 as useModel does.
 */
export async function readModel(name: string | undefined, deps: RouteDeps): Promise<Model> {
  return calledAs(name, await readServed(findModel(name, deps)));
}

/** Errors then name the model as the client did. */
function calledAs(name: string | undefined, model: Model): Model {
  return name === undefined ? model : { ...model, id: name };
}

/** As readModel. */
export async function readServed(served: ServedModel): Promise<Model> {
  const model = await served.read();
  if (model !== undefined) return model;
  throw notReady(served.runner.status());
}

/** The most names that a message lists; the others are counted. */
const MAX_NAMES_SAID = 8;

function modelNotFound(name: string, { models }: RouteDeps): ApiError {
  const { names } = models;
  const said = names.slice(0, MAX_NAMES_SAID).map((each) => JSON.stringify(each));
  if (names.length > said.length) said.push(`and ${names.length - said.length} others`);
  const served = names.length === 0 ? 'no model is loaded' : `available: ${said.join(', ')}`;
  const message = `Model ${JSON.stringify(shown(name))} not found; ${served}.`;
  return new ApiError({ status: 404, code: 'model_not_found', message, param: 'model' });
}
