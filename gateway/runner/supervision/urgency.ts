import type { SchedulerStats } from '../protocol/scheduler-stats.ts';
import type { OpenRequest } from './open-request.ts';

/** Which of two requests is parked, if one must be: the less urgent one, and of equals the one that came last. */
export function isLessUrgent(one: OpenRequest, other: OpenRequest): boolean {
  return one.priority === other.priority ? one.order > other.order : one.priority > other.priority;
}

/** What has to leave a runner so that one of its requests gets blocks of the KV cache. */
interface Surplus {
  /** Undefined: no request waits for less urgent ones. */
  readonly urgent: OpenRequest | undefined;
  readonly surplus: readonly OpenRequest[];
}

const NONE: Surplus = { urgent: undefined, surplus: [] };

/**
 * Finds the requests of a runner that wait for blocks of the KV cache while less urgent ones of their caller have them. A runner
 * starts prompts in the order of their arrival, so if it has had no row of a prompt since its last statistics, and sequences wait,
 * the first of them lacks blocks.
 */
export class BlockWaits {
  #numPrefillTokens = 0;
  /** The tokens of each request at the last statistics. */
  #numEmitted: ReadonlyMap<OpenRequest, number> = new Map();

  /** Called with the statistics of the runner, once a second. computing: its requests, in the order in which it got them. */
  next(
    computing: readonly OpenRequest[],
    blockSize: number,
    { numWaiting, numPrefillTokens, numFreeBlocks }: SchedulerStats,
  ): Surplus {
    const isStuck = numWaiting > 0 && numPrefillTokens === this.#numPrefillTokens;
    const before = this.#numEmitted;
    this.#numPrefillTokens = numPrefillTokens;
    this.#numEmitted = new Map(computing.map((open) => [open, open.state.numEmitted]));
    if (!isStuck) return NONE;
    const standsStill = (open: OpenRequest): boolean => before.get(open) === open.state.numEmitted;
    const blocksOf = ({ cost }: OpenRequest): number => Math.ceil((cost + 1) / blockSize);
    for (const urgent of computing.filter(standsStill).sort(byUrgency)) {
      // What came later and stands still is behind it, and has no blocks.
      const ahead = computing.slice(0, computing.indexOf(urgent));
      const inItsWay = computing.filter(
        (open) =>
          open.caller.name === urgent.caller.name &&
          open.priority > urgent.priority &&
          (ahead.includes(open) || !standsStill(open)),
      );
      if (inItsWay.length === 0) continue;
      let missing = blocksOf(urgent) - numFreeBlocks;
      const surplus: OpenRequest[] = [];
      for (const open of inItsWay.sort((one, other) => byUrgency(other, one))) {
        if (surplus.length > 0 && missing <= 0) break;
        surplus.push(open);
        if (!standsStill(open)) missing -= blocksOf(open);
      }
      return { urgent, surplus };
    }
    return NONE;
  }
}

function byUrgency(one: OpenRequest, other: OpenRequest): number {
  return isLessUrgent(one, other) ? 1 : -1;
}
