/**
 * Stop strings over text that comes in pieces. The text is read one UTF-16 unit after the other, so how it was cut into
 * pieces makes no difference: the stop string that is complete first wins; of several complete at the same place, the
 * one that began first. Only what could still become a match is held back: at most one unit less than the longest stop
 * string. Knuth, Morris and Pratt's automaton for each stop string: linear time, nothing is read twice.
 */

export interface StopResult {
  /** Text that can be sent. Matched text and all that follows it never is. */
  readonly text: string;
  /** The stop string that matched. */
  readonly matched?: string;
}

export class StopMatcher {
  readonly #automata: readonly StopAutomaton[];
  /** The end of the text so far that could be the beginning of a match. */
  #held = '';
  #matched: string | undefined;

  /** stops: none of them empty; at the same place, the first of equals in this order is reported. */
  constructor(stops: readonly string[]) {
    this.#automata = stops.map((stop) => new StopAutomaton(stop));
  }

  /**
   * After a match, every further text gives no text and the same match. Unless mayMatch, a stop string that this text
   * completes is text like any other; one that it begins may still be completed later.
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
    const heldUnits = Math.max(0, ...this.#automata.map((automaton) => automaton.matchedUnits));
    this.#held = seen.slice(seen.length - heldUnits);
    return { text: seen.slice(0, seen.length - heldUnits) };
  }

  /** The end of the text: gives out what was held back. */
  flush(): string {
    const text = this.#held;
    this.#held = '';
    return text;
  }

  /** The longest stop string complete with this unit. */
  #step(unit: number): string | undefined {
    let longest: string | undefined;
    for (const automaton of this.#automata) {
      if (!automaton.step(unit)) continue;
      if (longest === undefined || automaton.stop.length > longest.length) longest = automaton.stop;
    }
    return longest;
  }
}

class StopAutomaton {
  readonly stop: string;
  /** How many units of `stop` the text so far ends with. */
  matchedUnits = 0;
  /** By number of matched units: how many stay matched when the next one does not fit. */
  readonly #fallback: Int32Array;

  constructor(stop: string) {
    if (stop.length === 0) throw new RangeError('A stop string is empty.');
    this.stop = stop;
    this.#fallback = new Int32Array(stop.length + 1);
    for (let i = 1, matched = 0; i < stop.length; i++) {
      while (matched > 0 && stop[i] !== stop[matched]) matched = this.#fallback[matched] as number;
      if (stop[i] === stop[matched]) matched++;
      this.#fallback[i + 1] = matched;
    }
  }

  /** Whether `stop` is complete with this unit; then only what could begin it again stays matched. */
  step(unit: number): boolean {
    let matched = this.matchedUnits;
    while (matched > 0 && this.stop.charCodeAt(matched) !== unit) matched = this.#fallback[matched] as number;
    if (this.stop.charCodeAt(matched) === unit) matched++;
    const isComplete = matched === this.stop.length;
    this.matchedUnits = isComplete ? (this.#fallback[matched] as number) : matched;
    return isComplete;
  }
}
