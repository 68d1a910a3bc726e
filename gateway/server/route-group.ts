import type { Context, Hono, MiddlewareHandler } from 'hono';
import type { ApiError } from '../errors/api-error.ts';
import type { AppDeps } from './app.ts';

declare module 'hono' {
  interface ContextVariableMap {
    /** Of the request's path, whether a route is there or not. */
    group: RouteGroup;
  }
}

/** Who may ask where there are keys: everybody, who has a key, or who has one of an operator's. */
export type Access = 'everybody' | 'key' | 'admin-key';

/** Routes whose clients are of one kind: what they send to be let in, and how they read an error. */
export interface RouteGroup {
  /** Of its routes, and of what is not there: `/a` itself, or `/a/*` with all below it. */
  readonly paths: readonly string[];
  readonly access: Access;
  /** Those of its routes, all POST, whose requests go to the runner. */
  readonly generating: readonly string[];
  readonly routes: readonly ((deps: AppDeps) => Hono)[];
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
