import type { Context, Handler, Hono, MiddlewareHandler } from 'hono';
import type { z } from 'zod';
import type { Batches } from '../batches/batches.ts';
import type { ApiError } from '../errors/api-error.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { JSON_TYPE } from '../json/json-values.ts';
import type { ModelRegistry } from '../models/model-registry.ts';
import type { Pooling } from '../runner/runner.ts';
import type { Clock } from '../system/clock.ts';
import type { Ids } from '../system/ids.ts';
import type { CrashReport } from '../telemetry/crash-reports.ts';
import type { Log } from '../telemetry/log.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Tracing } from '../telemetry/tracing.ts';
import type { ByteBudget } from './guard/bodies.ts';

declare module 'hono' {
  interface ContextVariableMap {
    /** The group of the request's path, whether the route exists or not. */
    group: RouteGroup;
  }
}

/** What the routes get from outside. */
export interface RouteDeps {
  readonly models: ModelRegistry;
  /** Whether clients may have models unloaded; false by default. */
  readonly isUnloadAllowed?: boolean;
  readonly log: Log;
  readonly jobs: Jobs;
  readonly batches: Batches;
  readonly metrics: Metrics;
  /** Crash reports of runners, the newest first. */
  readonly crashes: () => readonly CrashReport[];
  /**
   * Bounds the memory of all answers that are many times as long as their requests. What such an answer is made from
   * counts until the client has taken the answer.
   */
  readonly answerBudget: ByteBudget;
  /** Bounds of prompts and answers besides the context; none by default. */
  readonly tokenLimits?: TokenLimits;
  /** Whether every answer has a receipt; false by default. */
  readonly hasReceipts?: boolean;
  /** How embeddings are pooled, whatever the model's file says. Undefined: as the file says. */
  readonly pooling?: Pooling | undefined;
  /**
   * Reads the settings again and replaces the runner, by one of another model if the settings name another. Resolves with
   * undefined when the new runner is ready, or with the reason why the old one goes on serving. Throws UsageError or
   * ModelFileError if the settings cannot be used. model: if there are several models, the one to restart.
   */
  readonly restartRunner: (model?: string) => Promise<string | undefined>;
  /** Milliseconds since 1970, for points in time. Not for durations. */
  readonly now: () => number;
  /** Milliseconds that never go back, for durations. */
  readonly monotonicNow: () => number;
  /** Ids of answers, calls and requests, and the seeds of requests without one. */
  readonly ids: Ids;
  /** Makes spans of requests. Undefined if traces are not exported. */
  readonly tracing?: Tracing | undefined;
  /** Times waits; the system's clock by default. */
  readonly clock?: Clock;
  /** Kills the runner with this process id; returns false if no runner has it. Undefined if nobody may kill runners. */
  readonly playground?: { readonly killRunner: ((pid: number) => boolean) | undefined } | undefined;
}

/** The most tokens of a prompt, and of an answer. Undefined: the context alone bounds them. */
export interface TokenLimits {
  readonly maxTokensIn?: number | undefined;
  readonly maxTokensOut?: number | undefined;
}

/** Who may use a group's routes when keys are required: everybody, holders of any key, or holders of an admin key. */
type Access = 'everybody' | 'key' | 'admin-key';

/** Routes for one kind of client: they share the right to use them, and the form of their errors. */
export interface RouteGroup {
  /** The group's label `api` in metrics. */
  readonly name: string;
  /**
   * The paths of its routes, and of unknown routes that it answers with 404: `/a` itself, or `/a/*` for `/a` and all
   * below it.
   */
  readonly paths: readonly string[];
  readonly access: Access;
  /** The paths of those routes, all POST, whose requests go to the runner. */
  readonly generating: readonly string[];
  readonly operations: readonly Operation[];
  /** The routes whose operations have no handler, because their paths are known only when the server starts. */
  readonly routes?: () => Hono;
  /** The schema of the body that errorAnswer makes. */
  readonly errorSchema: z.ZodType;
  /**
   * Makes the body of an error's answer, and its status if it differs from the error's. Headers are set on the context.
   */
  errorAnswer(c: Context, error: ApiError): ErrorAnswer;
  /** Makes what runs first for each request of the group, before the guard. */
  readonly begin?: (ids: Ids) => MiddlewareHandler;
  /** A sentence that follows "there is no such path" in a 404. */
  readonly hint?: string;
}

interface ErrorAnswer {
  readonly body: object;
  readonly status?: ApiError['status'];
}

/** Returns the first group that has the path. The last group must have all paths. */
function groupOf(path: string, groups: readonly RouteGroup[]): RouteGroup {
  const found = groups.find(({ paths }) => paths.some((pattern) => matches(path, pattern)));
  if (found === undefined) throw new Error(`no group of routes has ${path}`);
  return found;
}

function matches(path: string, pattern: string): boolean {
  if (!pattern.endsWith('/*')) return path === pattern;
  return path === pattern.slice(0, -2) || path.startsWith(pattern.slice(0, -1));
}

/** Sets each request's group, before anything can fail. */
export function assignGroup(groups: readonly RouteGroup[], ids: Ids): MiddlewareHandler {
  const beginnings = new Map(groups.map((group) => [group, group.begin?.(ids)]));
  return async (c, next) => {
    const group = groupOf(c.req.path, groups);
    c.set('group', group);
    const begin = beginnings.get(group);
    if (begin === undefined) await next();
    else return begin(c, next);
  };
}

/** One route: how it is answered, and how /openapi.json describes it. */
export interface Operation {
  readonly method: 'get' | 'post' | 'delete';
  /** The path in OpenAPI's notation, such as `/v1/models/{name}`. A {name} may have slashes, as names of models do. */
  readonly path: string;
  /** Makes the handler, once for each application. Returns undefined if the settings leave the route out. */
  readonly handler?: (deps: RouteDeps) => Handler | undefined;
  readonly summary: string;
  /** The schema that the body is checked by. */
  readonly body?: z.ZodType;
  /** Whether a request without a body is served too. */
  readonly isBodyOptional?: boolean;
  /** Whether the body is a form with files instead of JSON. */
  readonly isForm?: true;
  /** Media types of the body besides JSON. */
  readonly bodyTypes?: readonly string[];
  /** The request's headers: a description by name. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The parameters of the query string: a description by name. */
  readonly query?: Readonly<Record<string, string>>;
  /** The successful answers, by status. */
  readonly answers: Readonly<Record<number, Answer>>;
}

export interface Answer {
  readonly description: string;
  /** The content by media type. */
  readonly content: Readonly<Record<string, Content>>;
}

/** The content of an answer: a whole body, or the schema of each of its lines or events. */
export type Content =
  | { readonly whole: z.ZodType }
  | { readonly lines: z.ZodType }
  | { readonly events: Events };

/** Server-sent events. */
export interface Events {
  /** The schema of an event's data, by the event's name. */
  readonly named?: Readonly<Record<string, z.ZodType>>;
  /** The schema of the data of events without a name. */
  readonly unnamed?: z.ZodType;
  /** The data of the last event, which is not JSON. */
  readonly last?: string;
}

export const SSE_TYPE = 'text/event-stream';
export const LINES_TYPE = 'application/x-ndjson';

/** An answer in JSON. */
export function json(description: string, whole: z.ZodType): Answer {
  return { description, content: { [JSON_TYPE]: { whole } } };
}

/** An answer in JSON, or a stream of events if the request asks for one. */
export function jsonOrEvents(description: string, whole: z.ZodType, events: Events): Answer {
  return { description, content: { [JSON_TYPE]: { whole }, [SSE_TYPE]: { events } } };
}

/** An answer in JSON, or a stream of JSON lines. */
export function jsonOrLines(description: string, whole: z.ZodType, lines: z.ZodType): Answer {
  return { description, content: { [LINES_TYPE]: { lines }, [JSON_TYPE]: { whole } } };
}

/** The route's path in Hono's notation. */
export function pathOf({ path }: Operation): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name) => (name === 'name' ? ':name{.+}' : `:${name}`));
}
