/**
 * Which requests may be at a runner before it has compiled their grammars. A runner compiles in the order of arrival, up to ten
 * seconds for each, and nothing can overtake what it has. So while several callers wait for grammars, each has one at a runner,
 * and they take turns. A caller that is alone has all of them there.
 */
import type { OpenRequest } from './open-request.ts';
import type { ScheduledRunner } from './scheduled-runner.ts';

/** The turns as they are now: a look at the open requests and at where they are. */
export class GrammarTurns {
  /** For each runner the grammar of each caller that is to be compiled next; undefined if at most one caller waits for grammars. */
  readonly #turns: ReadonlyMap<ScheduledRunner, ReadonlyMap<string, string>> | undefined;
  /** Requests at runners whose callers have another turn there. */
  readonly surplus: readonly OpenRequest[] = [];

  constructor(runners: readonly ScheduledRunner[], requests: Iterable<OpenRequest>) {
    if (numWaiting(runners, requests) < 2) return;
    const surplus: OpenRequest[] = [];
    const turnsAt = (runner: ScheduledRunner): ReadonlyMap<string, string> => {
      const turns = new Map<string, string>();
      for (const open of runner.requests) {
        const { grammarKey: key, caller } = open;
        if (key === undefined || runner.grammars.has(key)) continue;
        const turn = turns.get(caller.name) ?? key;
        turns.set(caller.name, turn);
        if (turn !== key && runner.canServe) surplus.push(open);
      }
      return turns;
    };
    this.#turns = new Map(runners.map((runner) => [runner, turnsAt(runner)]));
    this.surplus = surplus;
  }

  mayHave({ grammarKey: key, caller }: OpenRequest, runner: ScheduledRunner): boolean {
    if (key === undefined || runner.grammars.has(key)) return true;
    return (this.#turns?.get(runner)?.get(caller.name) ?? key) === key;
  }
}

function numWaiting(runners: readonly ScheduledRunner[], requests: Iterable<OpenRequest>): number {
  const names = new Set<string>();
  for (const open of requests) {
    const { grammarKey: key } = open;
    // A paused request shows by no token that its grammar is compiled.
    if (key === undefined || open.isPaused) continue;
    const at = runners.filter(({ requests: held }) => held.has(open));
    const isCompiled = (at.length === 0 ? runners : at).some(({ grammars }) => grammars.has(key));
    if (!isCompiled) names.add(open.caller.name);
  }
  return names.size;
}
