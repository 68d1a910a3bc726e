import type { Context, Hono, MiddlewareHandler } from 'hono';
import type { z } from 'zod';
import type { ApiError } from '../errors/api-error.ts';
import type { DurableJobs } from '../journal/durable-jobs.ts';
import type { ModelRegistry } from '../models/model-registry.ts';
import type { Pooling } from '../runner/runner.ts';
import type { Clock } from '../system/clock.ts';
import type { CrashReport } from '../telemetry/crash-reports.ts';
import type { Log } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { ByteBudget } from './guard/byte-budget.ts';
import type { Operation } from './operation.ts';

declare module 'hono' {
  interface ContextVariableMap {
    /** Of the request's path, whether a route is there or not. */
    group: RouteGroup;
  }
}

/** What the routes need from the outside. */
export interface RouteDeps {
  readonly models: ModelRegistry;
  readonly log: Log;
  /** Jobs that outlive connections and this process; absent, or undefined: no journal is kept, and they are refused. */
  readonly jobs?: DurableJobs | undefined;
  readonly metrics: Pick<Metrics, 'text' | 'contentType'>;
  /** Of runners, the newest first. */
  readonly crashes: () => readonly CrashReport[];
  /** Of all answers that are many times as long as their requests: what they are made from, until they are taken. */
  readonly answerBudget: ByteBudget;
  /** How vectors are made of texts, whatever the model's file says; undefined: as it says. */
  readonly pooling?: Pooling | undefined;
  /**
   * Reads the settings again and puts a new runner in place of the old one, of another model if they name one. Resolves when
   * it is ready, or with the reason why what was there before serves on. Throws UsageError or ModelFileError for settings
   * that cannot be used. model: of several models the name of one, for a new runner of that one alone.
   */
  readonly restartRunner: (model?: string) => Promise<string | undefined>;
  /** Milliseconds since 1970: what time it is, and never how long something took. */
  readonly now: () => number;
  /** Milliseconds that only grow: for durations. */
  readonly monotonicNow: () => number;
  /** How long what waits has waited; the system's when left out. */
  readonly clock?: Clock;
  /** Kills the runner that has this process id; false if none has. Absent, or undefined: nobody may. */
  readonly playground?: { readonly killRunner: ((pid: number) => boolean) | undefined } | undefined;
}

/** Who may ask where there are keys: everybody, who has a key, or who has one of an operator's. */
export type Access = 'everybody' | 'key' | 'admin-key';

/** Routes whose clients are of one kind: what they send to be let in, and how they read an error. */
export interface RouteGroup {
  /** In metrics, the label `api` of requests by its routes. */
  readonly name: string;
  /** Of its routes, and of what is not there: `/a` itself, or `/a/*` with all below it. */
  readonly paths: readonly string[];
  readonly access: Access;
  /** Those of its routes, all POST, whose requests go to the runner. */
  readonly generating: readonly string[];
  readonly routes: readonly ((deps: RouteDeps) => Hono)[];
  /** What /openapi.json tells of them. */
  readonly operations: readonly Operation[];
  /** Of the body that errorAnswer gives. */
  readonly errorSchema: z.ZodType;
  /** The body of the answer, and its status if it is another than the error's own; headers go on the context. */
  errorAnswer(c: Context, error: ApiError): ErrorAnswer;
  /** Sees each request first. */
  readonly begin?: MiddlewareHandler;
  /** For who asks for a path that is not there: a sentence, behind one that says so. */
  readonly hint?: string;
}

export interface ErrorAnswer {
  readonly body: object;
  readonly status?: ApiError['status'];
}

/** The first group that has the path: the last one has all. */
export function groupOf(path: string, groups: readonly RouteGroup[]): RouteGroup {
  const found = groups.find(({ paths }) => paths.some((pattern) => matches(path, pattern)));
  if (found === undefined) throw new Error(`no group of routes has ${path}`);
  return found;
}

function matches(path: string, pattern: string): boolean {
  if (!pattern.endsWith('/*')) return path === pattern;
  return path === pattern.slice(0, -2) || path.startsWith(pattern.slice(0, -1));
}

/** Puts each request in its group, before anything can fail. */
export function assignGroup(groups: readonly RouteGroup[]): MiddlewareHandler {
  return async (c, next) => {
    const group = groupOf(c.req.path, groups);
    c.set('group', group);
    if (group.begin === undefined) await next();
    else return group.begin(c, next);
  };
}
