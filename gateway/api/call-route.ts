import { Hono } from 'hono';
import { answer } from '../calls/answer.ts';
import type { ParsedCall } from '../calls/call.ts';
import { tellIgnored } from '../server/ignored-fields.ts';
import type { RouteDeps } from '../server/route-group.ts';
import { readJson } from './json.ts';

/** A route that answers calls. parse: makes a call of a body, or throws a 400 that names every field at fault. */
export function callRoute(path: string, parse: (body: unknown) => ParsedCall): (deps: RouteDeps) => Hono {
  return (deps) =>
    new Hono().post(path, async (c) => {
      const body = await readJson(c);
      const parsed = parse(body);
      tellIgnored(c, deps.log, parsed.ignored);
      return answer(c, deps, parsed, body);
    });
}
