/** Kills the runner at intervals, and measures how long it takes until streams go on. */
import type { Gateway } from '../fixtures/gateway.ts';
import { within } from '../fixtures/within.ts';
import type { Load } from './load.ts';
import type { LogEvents } from './log-events.ts';

const RECOVERY_MS = 120_000;

export interface Recovery {
  readonly numOpen: number;
  /** From the kill to the gateway's own notice. */
  readonly noticedMs: number;
  /** From the kill to the next runner that takes requests. */
  readonly readyMs: number;
  /** From the kill to the first piece that a client gets from it. */
  readonly resumedMs: number;
}

/** Kills the runner of now; returns when a stream goes on. There must be streams. */
export async function killOnce(gateway: Gateway, load: Load, log: LogEvents): Promise<Recovery> {
  const { runner } = await gateway.healthWhere(
    ({ status, runner: { open_requests: open } }) => status === 'healthy' && open > 0,
    'A runner at work',
  );
  const exited = log.next('runner_exited').then(() => performance.now());
  const ready = log.next('model_load_complete').then(() => performance.now());
  const resumed = ready.then(
    () =>
      new Promise<number>((resolve) => {
        load.onPiece = () => resolve(performance.now());
      }),
  );
  const killedAt = performance.now();
  process.kill(runner.pid as number, 'SIGKILL');
  const [exitedAt, readyAt, resumedAt] = await within(
    RECOVERY_MS,
    'The return of the streams',
    Promise.all([exited, ready, resumed]),
  );
  load.onPiece = () => {};
  return {
    numOpen: runner.open_requests,
    noticedMs: exitedAt - killedAt,
    readyMs: readyAt - killedAt,
    resumedMs: resumedAt - killedAt,
  };
}
