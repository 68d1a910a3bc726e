import { createHash } from 'node:crypto';
import type { Grammar } from '../runner.ts';

/** Grammars remembered for each runner, as many as it caches (runner/grammar/grammar_cache.h). */
export const maxKnownGrammars = 1024;

/** The grammars that a runner has compiled, by their keys. One that has left its cache costs a turn that was not counted. */
export class KnownGrammars {
  /** In the order of use. */
  readonly #keys = new Set<string>();

  add(key: string): void {
    this.#keys.delete(key);
    this.#keys.add(key);
    const [oldest] = this.#keys;
    if (this.#keys.size > maxKnownGrammars && oldest !== undefined) this.#keys.delete(oldest);
  }

  has(key: string): boolean {
    return this.#keys.has(key);
  }

  /** The runner has ended, and its cache with it. */
  clear(): void {
    this.#keys.clear();
  }
}

/** By grammar: the choices of one request share theirs. */
const keys = new WeakMap<Grammar, string>();

/** Equal for equal grammars. A source may be long, so it is not kept. */
export function grammarKeyOf(grammar: Grammar): string {
  const known = keys.get(grammar);
  if (known !== undefined) return known;
  const { kind, strict, source } = grammar;
  const key = createHash('sha256').update(`${kind} ${strict} ${source}`).digest('base64');
  keys.set(grammar, key);
  return key;
}
