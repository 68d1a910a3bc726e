/**
 * Finds stop strings in text that comes in pieces. The text is read one UTF-16 unit at a time, so the cuts between pieces make
 * no difference. The stop string that is complete first wins; of several that are complete at the same unit, the longest wins.
 * Only units that may still become a match are held back, at most one unit less than the longest stop string. Each stop string
 * has an automaton of Knuth, Morris and Pratt: the time is linear, and no unit is read twice by one automaton.
 */

interface StopResult {
  /** Text that can be sent. It never has matched text or anything behind it. */
  readonly text: string;
  /** The stop string that matched. */
  readonly matched?: string;
}

export class StopMatcher {
  readonly #automata: readonly StopAutomaton[];
  /** The end of the text so far that may be the beginning of a match. */
  #held = '';
  #matched: string | undefined;

  /** stops: none may be empty (RangeError). */
  constructor(stops: readonly string[]) {
    this.#automata = patternsOf(stops).map((pattern) => new StopAutomaton(pattern));
  }

  /**
   * Returns the text that can be sent now. After a match, every call returns no text and the same match. Without mayMatch, a
   * stop string that this text completes is ordinary text; a stop string that begins in this text can still match later.
   */
  push(text: string, mayMatch = true): StopResult {
    if (this.#matched !== undefined) return { text: '', matched: this.#matched };
    const seen = this.#held + text;
    for (let at = this.#held.length; at < seen.length; at++) {
      const stop = this.#step(seen.charCodeAt(at));
      if (stop === undefined || !mayMatch) continue;
      this.#matched = stop;
      this.#held = '';
      return { text: seen.slice(0, at + 1 - stop.length), matched: stop };
    }
    let heldUnits = 0;
    for (const { matchedUnits } of this.#automata) heldUnits = Math.max(heldUnits, matchedUnits);
    this.#held = seen.slice(seen.length - heldUnits);
    return { text: seen.slice(0, seen.length - heldUnits) };
  }

  /** Ends the text and returns what was held back. */
  flush(): string {
    const text = this.#held;
    this.#held = '';
    return text;
  }

  /** Returns the longest stop string that is complete with this unit. */
  #step(unit: number): string | undefined {
    let longest: string | undefined;
    for (const automaton of this.#automata) {
      if (!automaton.step(unit)) continue;
      if (longest === undefined || automaton.stop.length > longest.length) longest = automaton.stop;
    }
    return longest;
  }
}

interface StopPattern {
  readonly stop: string;
  /** For each number of matched units: how many of them stay matched when the next unit does not fit. */
  readonly fallback: Int32Array;
}

/** The patterns of lists of stop strings. The choices of a request have the same list, so they share its patterns. */
const known = new WeakMap<readonly string[], readonly StopPattern[]>();

function patternsOf(stops: readonly string[]): readonly StopPattern[] {
  const patterns = known.get(stops) ?? stops.map(patternOf);
  known.set(stops, patterns);
  return patterns;
}

function patternOf(stop: string): StopPattern {
  if (stop.length === 0) throw new RangeError('A stop string is empty.');
  const fallback = new Int32Array(stop.length + 1);
  for (let i = 1, matched = 0; i < stop.length; i++) {
    while (matched > 0 && stop[i] !== stop[matched]) matched = fallback[matched] as number;
    if (stop[i] === stop[matched]) matched++;
    fallback[i + 1] = matched;
  }
  return { stop, fallback };
}

class StopAutomaton {
  readonly stop: string;
  /** The text so far ends with this many units of `stop`. */
  matchedUnits = 0;
  readonly #fallback: Int32Array;

  constructor({ stop, fallback }: StopPattern) {
    this.stop = stop;
    this.#fallback = fallback;
  }

  /**
   * Returns whether `stop` is complete with this unit. After a match, only units that may begin the next match count as
   * matched.
   */
  step(unit: number): boolean {
    let matched = this.matchedUnits;
    while (matched > 0 && this.stop.charCodeAt(matched) !== unit) matched = this.#fallback[matched] as number;
    if (this.stop.charCodeAt(matched) === unit) matched++;
    const isComplete = matched === this.stop.length;
    this.matchedUnits = isComplete ? (this.#fallback[matched] as number) : matched;
    return isComplete;
  }
}

/** The number of UTF-16 units at the end of `text` that are a proper prefix of `mark`, and so may still become it. */
export function begunUnits(text: string, mark: string): number {
  for (let units = Math.min(mark.length - 1, text.length); units > 0; units--)
    if (text.endsWith(mark.slice(0, units))) return units;
  return 0;
}
