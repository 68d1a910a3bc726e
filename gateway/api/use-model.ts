import type { Context } from 'hono';
import { ApiError } from '../errors/api-error.ts';
import { shown } from '../errors/shown.ts';
import type { Model } from '../models/model.ts';
import { UnknownModelError } from '../models/model-registry.ts';
import type { ServedModel } from '../models/served-model.ts';
import type { GenerateRequest, Runner, RunnerInfo } from '../runner/runner.ts';
import { failureLog } from '../server/request-log.ts';
import type { RouteDeps } from '../server/route-group.ts';
import { streamWhileLoading } from '../server/streams/loading-stream.ts';
import { toApiError } from '../server/to-api-error.ts';
import { systemClock } from '../system/clock.ts';
import { settlesWithin } from '../system/settles-within.ts';
import { notReady, requireReady } from './prompt.ts';

/** A model that takes requests, with the limits of its runner. */
export interface UsableModel {
  readonly model: Model;
  readonly info: RunnerInfo;
  readonly runner: Runner;
}

export interface ModelWish {
  /** As the request says it; undefined: the default. */
  readonly name?: string;
  /** Milliseconds since 1970. */
  readonly deadlineMs?: number | undefined;
  /** Of a request for server-sent events: how they say that it failed. While its model loads, comments say how far it is. */
  readonly failureEvent?: ((error: ApiError) => string) | undefined;
}

/** A request that waits longer than this for its model has its stream begun. */
export const loadingNoticeMs = 1000;

/**
 * Answers a request by the model that it names, which is not unloaded before `answer` has given the response. 404 for a name
 * that no model has, 503 while the model takes no request and will not soon.
 */
export async function useModel(
  c: Context,
  deps: RouteDeps,
  wish: ModelWish,
  answer: (usable: UsableModel) => Response | Promise<Response>,
): Promise<Response> {
  const { clock = systemClock, models } = deps;
  const { name, failureEvent } = wish;
  const wanted = models.isOnDemand ? findModel(name, deps) : models.default;
  let isAcquired = false;
  const answered = answerBy(c, deps, wish, (usable) => {
    isAcquired = true;
    return answer(usable);
  });
  if (!wanted.isOnDemand || wanted.residency.state === 'loaded' || failureEvent === undefined)
    return answered;
  // Until then it may still be refused by a status of its own.
  const isAnswered = await settlesWithin(answered.then(settled, settled), loadingNoticeMs, clock);
  if (isAnswered || isAcquired) return answered;
  const logFailure = failureLog(deps.log, c);
  return streamWhileLoading(c, answered, {
    clock,
    progress: () => progressOf(wanted),
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
  { name, deadlineMs }: ModelWish,
  answer: (usable: UsableModel) => Response | Promise<Response>,
): Promise<Response> {
  const acquired = await deps.models.acquire(name, { deadlineMs, signal: c.req.raw.signal });
  try {
    const { model, info } = requireReady(acquired);
    // Another model may have taken over under another name.
    if (name !== undefined && !acquired.names.includes(name)) throw modelNotFound(name, deps);
    return await answer({ model, info, runner: countedAs(c.get('group').name, acquired.runner) });
  } finally {
    acquired.release();
  }
}

/** The metrics tell its requests from those of other APIs. */
function countedAs(api: string, runner: Runner): Runner {
  const labelled = (request: GenerateRequest): GenerateRequest => ({ ...request, api });
  return {
    generate: (request, sink) => runner.generate(labelled(request), sink),
    assertCapacity: (requests) => runner.assertCapacity(requests),
    assertAcceptsRequests: () => runner.assertAcceptsRequests(),
    status: () => runner.status(),
  };
}

/** Per cent, as far as is known. */
function progressOf({ residency: { state, progress } }: ServedModel): string {
  if (state !== 'loading') return 'waiting';
  return progress === undefined ? 'loading' : `loading ${Math.floor(progress * 100)} %`;
}

/** The model of this name, or of none: the default; or a 404. */
export function findModel(name: string | undefined, deps: RouteDeps): ServedModel {
  try {
    return deps.models.find(name);
  } catch (error) {
    if (error instanceof UnknownModelError && name !== undefined) throw modelNotFound(name, deps);
    throw error;
  }
}

/** What needs the files of a model alone: works while its runner is away, and does not load it. 404 and 503 as above. */
export async function readModel(name: string | undefined, deps: RouteDeps): Promise<Model> {
  const served = findModel(name, deps);
  const model = await served.read();
  if (model !== undefined) return model;
  throw notReady(served.runner.status());
}

/** More are counted in a message. */
const MAX_NAMES_SAID = 8;

function modelNotFound(name: string, { models }: RouteDeps): ApiError {
  const { names } = models;
  const said = names.slice(0, MAX_NAMES_SAID).map((each) => JSON.stringify(each));
  if (names.length > said.length) said.push(`${names.length - said.length} others`);
  const served = names.length === 0 ? 'no model is loaded' : `this server serves ${said.join(' and ')}`;
  const message = `The model ${JSON.stringify(shown(name))} is not here; ${served}.`;
  return new ApiError({ status: 404, code: 'model_not_found', message, param: 'model' });
}
