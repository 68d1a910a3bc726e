import {
  countersOf,
  type SchedulerCounters,
  type SchedulerStats,
  statsOf,
} from '../protocol/scheduler-stats.ts';
import type { RunnerInfo, RunnerState, RunnerStatus } from '../runner.ts';
import type { RequestScheduler } from './request-scheduler.ts';
import type { RunnerSupervisor } from './supervisor.ts';

type PoolState = Exclude<RunnerState, 'stopping'>;

/** The pool has the first of these states that one of its runners has. */
const bestFirst: readonly PoolState[] = ['ready', 'recovering', 'starting', 'failed'];

/**
 * The status of all runners as one. Their memory, blocks and counters are summed, and the pool is ready if one of them is.
 * newest: facts about the runner that became ready last.
 */
export function poolStatus(
  supervisors: readonly RunnerSupervisor[],
  newest: RunnerInfo | undefined,
  scheduler: RequestScheduler,
): RunnerStatus {
  const state = bestFirst.find((each) => supervisors.some((supervisor) => supervisor.state === each));
  const best = supervisors.find((supervisor) => supervisor.state === state);
  if (state === undefined || best === undefined) throw new Error('A pool has a runner at least.');
  const heard = supervisors.map((supervisor) => supervisor.heard);
  const stats = heard.flatMap((each) => each.stats ?? []);
  const freeBlocks = heard.flatMap((each) => each.numFreeBlocks ?? []);
  return {
    state,
    reason: best.reason,
    pid: best.pid,
    restarts: supervisors.reduce((sum, { restarts }) => sum + restarts, 0),
    openRequests: scheduler.numOpen,
    openTokens: scheduler.numOpenTokens,
    loadProgress: best.heard.loadProgress,
    retryAfterSec: best.retryAfterSec,
    info: newest === undefined ? undefined : sumOfInfo(supervisors, newest),
    numFreeBlocks: freeBlocks.length === 0 ? undefined : sum(freeBlocks),
    stats: stats.length === 0 ? undefined : withPending(sumOfStats(stats), scheduler.numPending),
    counters: sumOfCounters(heard.map(({ counters }) => counters)),
    ...(supervisors.length === 1 ? {} : { runners: supervisors.map(runnerStatus(scheduler)) }),
  };
}

function runnerStatus(scheduler: RequestScheduler) {
  return ({ state, reason, pid, restarts, heard }: RunnerSupervisor, index: number) => ({
    state,
    reason,
    pid,
    restarts,
    openRequests: scheduler.numWith(index),
    loadProgress: heard.loadProgress,
    numFreeBlocks: heard.numFreeBlocks,
    info: heard.info,
  });
}

/** Counts the memory of every runner that has been ready, even if it is dead now, because its successor takes the same. */
function sumOfInfo(supervisors: readonly RunnerSupervisor[], newest: RunnerInfo): RunnerInfo {
  if (supervisors.length === 1) return newest;
  const infos = supervisors.flatMap(({ heard }) => heard.info ?? []);
  return {
    ...newest,
    numBlocks: sum(infos.map(({ numBlocks }) => numBlocks)),
    weightsBytes: sum(infos.map(({ weightsBytes }) => weightsBytes)),
    kvCacheBytes: sum(infos.map(({ kvCacheBytes }) => kvCacheBytes)),
  };
}

function sumOfCounters(counters: readonly SchedulerCounters[]): SchedulerCounters {
  const [first, ...others] = counters;
  if (first !== undefined && others.length === 0) return first;
  return countersOf((name) => sum(counters.map((each) => each[name])));
}

function sumOfStats(stats: readonly SchedulerStats[]): SchedulerStats {
  const [first, ...others] = stats;
  if (first !== undefined && others.length === 0) return first;
  return statsOf((name) => sum(stats.map((each) => each[name])));
}

/** A request that no runner has waits for its first step too. */
function withPending(stats: SchedulerStats, numPending: number): SchedulerStats {
  return numPending === 0 ? stats : { ...stats, numWaiting: stats.numWaiting + numPending };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
