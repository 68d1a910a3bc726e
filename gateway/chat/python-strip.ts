/**
 * The template library's strip, lstrip and rstrip ignore their argument and strip JavaScript's white space. Templates
 * are written for Python, where the argument is a set of characters (`text.rstrip('\n')` keeps trailing spaces) and
 * white space is another set. This replaces the three methods of the library's strings.
 */
import { Environment } from '@huggingface/jinja';

type RuntimeValue = ReturnType<Environment['set']>;
/** Methods by name, as the library looks them up on a value. */
type Builtins = Map<string, RuntimeValue>;

/** str.isspace of Python 3, as it is for the characters of the Basic Multilingual Plane. */
const pythonSpace =
  '\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a' +
  '\u2028\u2029\u202f\u205f\u3000';

/** Changes the library for the whole process; to be called once. */
export function installPythonStrip(): void {
  const prototype: object = Object.getPrototypeOf(new Environment().set('text', ''));
  const original = Object.getOwnPropertyDescriptor(prototype, 'builtins')?.get;
  if (original === undefined) {
    throw new Error('This version of @huggingface/jinja has no methods of strings where they are expected.');
  }
  const patched = new WeakSet<Builtins>();
  Object.defineProperty(prototype, 'builtins', {
    get(this: { value: string }): Builtins {
      const builtins: Builtins = original.call(this);
      if (patched.has(builtins)) return builtins;
      patched.add(builtins);
      // The library keeps the map with its string, so the methods can be bound to the string as it is now.
      const methods = new Environment();
      const text = this.value;
      builtins.set(
        'strip',
        methods.set('strip', (chars: unknown) => strip(text, chars, true, true)),
      );
      builtins.set(
        'lstrip',
        methods.set('lstrip', (chars: unknown) => strip(text, chars, true, false)),
      );
      builtins.set(
        'rstrip',
        methods.set('rstrip', (chars: unknown) => strip(text, chars, false, true)),
      );
      return builtins;
    },
  });
}

/** chars: the set of characters to strip; none or absent: white space. */
export function strip(text: string, chars: unknown, left: boolean, right: boolean): string {
  if (chars !== undefined && chars !== null && typeof chars !== 'string') {
    throw new Error('strip() takes a string of the characters to strip');
  }
  const set = new Set(chars ?? pythonSpace);
  let start = 0;
  let end = text.length;
  while (left && start < end) {
    const first = String.fromCodePoint(text.codePointAt(start) as number);
    if (!set.has(first)) break;
    start += first.length;
  }
  while (right && end > start) {
    // Two units back lies a whole character, or the unit before the last.
    const last = Array.from(text.slice(Math.max(start, end - 2), end)).at(-1) as string;
    if (!set.has(last)) break;
    end -= last.length;
  }
  return text.slice(start, end);
}
