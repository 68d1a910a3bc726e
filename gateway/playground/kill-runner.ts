import type { RunnerStatus } from '../runner/runner.ts';

/** For who wants to see streams outlive a runner. False, and nothing done, if it is none of these, each a model's. */
export function killRunner(models: readonly RunnerStatus[], pid: number): boolean {
  const pids = models.flatMap((status) => (status.runners ?? [status]).map((runner) => runner.pid));
  if (!pids.includes(pid)) return false;
  process.kill(pid, 'SIGKILL');
  return true;
}
