import { ApiError, shown } from '../errors/api-error.ts';

/**
 * Refuses broken text. JSON can escape one half of a surrogate pair, but no text contains such a half, so it would have
 * to be replaced on the way to the model.
 */

const SURROGATE_ESCAPE = /\\u[dD][89a-fA-F]/;

/**
 * Throws a 400 that names the first field of the body with broken text. json: the text that the value was parsed from.
 */
export function refuseBrokenText(json: string, value: unknown): void {
  // Only an escape can express half a pair, because the body was valid UTF-8.
  if (!SURROGATE_ESCAPE.test(json)) return;
  const path = pathOfBrokenText(value);
  if (path === undefined) return;
  const field = path.map((name) => shown(name)).join('.') || 'body';
  const message = `${field} has an unpaired surrogate, such as the escape "\\ud83d" alone, which is not valid Unicode text`;
  const fieldErrors = [{ field, constraint: 'unicode', message }];
  throw new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
}

type Path = readonly string[];

/** The path to the broken string, or to the object that has a member with a broken name. */
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

/** A plain loop: half a million ids take a few milliseconds. */
function pathInList(items: readonly unknown[]): Path | undefined {
  for (let index = 0; index < items.length; index++) {
    const path = pathOfBrokenText(items[index]);
    if (path !== undefined) return [String(index), ...path];
  }
  return undefined;
}

/** With the flag u, a whole pair is one character and not a surrogate. */
function isBroken(text: string): boolean {
  return /\p{Surrogate}/u.test(text);
}
