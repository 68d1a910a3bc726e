import { ApiError } from '../errors/api-error.ts';
import { shown } from '../errors/shown.ts';

/**
 * JSON can escape one half of a surrogate pair, and no text has such a thing: it would have to become another one on the
 * way to the model.
 */

const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;

/** 400 on the first field of a body whose text is broken; `json` is what the value was read from. */
export function refuseBrokenText(json: string, value: unknown): void {
  // Only an escape can say it: the bytes were UTF-8.
  if (!SURROGATE_ESCAPE.test(json)) return;
  const path = pathOfBrokenText(value);
  if (path === undefined) return;
  const field = path.map((name) => shown(name)).join('.') || 'body';
  const message = `${field} has half of a surrogate pair, an escape such as "\\ud83d" without its other half, which is no text`;
  const fieldErrors = [{ field, constraint: 'unicode', message }];
  throw new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
}

type Path = readonly string[];

/** The way to the string, or to the object that has a member of such a name. */
function pathOfBrokenText(value: unknown): Path | undefined {
  if (typeof value === 'string') return isBroken(value) ? [] : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  if (Array.isArray(value)) return pathInList(value);
  for (const [name, member] of Object.entries(value)) {
    if (isBroken(name)) return [];
    const path = pathOfBrokenText(member);
    if (path !== undefined) return [name, ...path];
  }
  return undefined;
}

/** One of half a million ids is passed over in a few milliseconds. */
function pathInList(items: readonly unknown[]): Path | undefined {
  for (let index = 0; index < items.length; index++) {
    const path = pathOfBrokenText(items[index]);
    if (path !== undefined) return [String(index), ...path];
  }
  return undefined;
}

/** A whole pair is one character here, and no surrogate. */
function isBroken(text: string): boolean {
  return /\p{Surrogate}/u.test(text);
}
