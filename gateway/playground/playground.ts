import type { Config } from '../config/config.ts';
import type { RunnerStatus } from '../runner/runner.ts';
import { type BuiltPage, readBuiltPage } from './built-page.ts';

/** What the server offers to people with a browser. */
export interface Playground {
  /** Undefined if the page was not built. */
  readonly page: BuiltPage | undefined;
  /** Kills the runner with this process id. Returns false if there is none. Undefined if killing is not allowed. */
  readonly killRunner: ((pid: number) => boolean) | undefined;
}

/** The playground by the setting --playground; undefined if it is off. runners: those that may be killed if it is `dev`. */
export function playgroundOf(
  { playground }: Pick<Config, 'playground'>,
  runners: () => readonly RunnerStatus[],
): Playground | undefined {
  if (playground === 'off') return undefined;
  const canKill = playground === 'dev';
  return {
    page: readBuiltPage(canKill),
    killRunner: canKill ? (pid) => killRunner(runners(), pid) : undefined,
  };
}

/**
 * Kills a runner, for people who want to see streams outlive it. Returns false and does nothing if no model has a runner with
 * this process id.
 */
export function killRunner(models: readonly RunnerStatus[], pid: number): boolean {
  const pids = models.flatMap((status) => (status.runners ?? [status]).map((runner) => runner.pid));
  if (!pids.includes(pid)) return false;
  process.kill(pid, 'SIGKILL');
  return true;
}
