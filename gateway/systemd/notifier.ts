import { UsageError } from '../errors/exit-code.ts';
import type { RunnerStatus } from '../runner/runner.ts';
import { type Every, systemEvery, type Timer } from '../system/clock.ts';
import { escapeControls } from '../system/printable.ts';
import type { Log } from '../telemetry/log.ts';
import { NotifyPipe } from './notify-pipe.ts';

/**
 * Reports the state of the gateway to systemd (sd_notify(3)). It reports the gateway's state, not the runner's: the gateway
 * itself handles a sick runner, and a restart of the unit would end the streams that the gateway can save.
 */

/** Milliseconds between looks at the status, which is sent when it has changed. */
export const STATUS_INTERVAL_MS = 1000;

/**
 * In a phase with a time limit, systemd is asked for this many more milliseconds at each look. A gateway that hangs does not
 * ask and gets no more.
 */
export const EXTENSION_MS = 10_000;

/** The phases. All but `ready` have a time limit in the unit. */
type Phase = 'starting' | 'ready' | 'reloading' | 'stopping';

export interface NotifierOptions {
  /** The state in one line without control characters. Called at every tick. */
  readonly status: () => string;
  readonly log: Log;
  /** The program that sends the messages. */
  readonly file?: string;
  readonly every?: Every;
}

/**
 * Returns undefined if systemd does not ask for messages. Throws UsageError for variables that systemd would not set like this.
 */
export function createNotifier(env: NodeJS.ProcessEnv, options: NotifierOptions): Notifier | undefined {
  const socket = env.NOTIFY_SOCKET;
  return socket === undefined ? undefined : new Notifier(socket, watchdogMs(env, process.pid), options);
}

/** Milliseconds of silence after which systemd kills the gateway. Undefined if there is no watchdog for this process. */
export function watchdogMs(env: NodeJS.ProcessEnv, pid: number): number | undefined {
  const { WATCHDOG_USEC: usec, WATCHDOG_PID: forPid } = env;
  if (usec === undefined || (forPid !== undefined && forPid !== String(pid))) return undefined;
  if (!/^[1-9]\d{0,15}$/.test(usec)) {
    throw new UsageError(
      `WATCHDOG_USEC must be a whole number of microseconds above 0, got ${JSON.stringify(usec)}.`,
    );
  }
  return Number(usec) / 1000;
}

export class Notifier {
  readonly #pipe: NotifyPipe;
  readonly #status: () => string;
  readonly #timers: readonly Timer[];
  #phase: Phase = 'starting';
  #numReloads = 0;
  #lastStatus = '';

  constructor(
    socket: string,
    watchdogAfterMs: number | undefined,
    { status, every = systemEvery, ...options }: NotifierOptions,
  ) {
    this.#status = status;
    this.#pipe = new NotifyPipe({ socket, onReplaced: () => this.#enter(this.#phase), ...options });
    this.#timers = [
      every(STATUS_INTERVAL_MS, () => this.#look()),
      // The timer fires only if the event loop turns, and the status comes only if the supervisor answers.
      ...(watchdogAfterMs === undefined ? [] : [every(watchdogAfterMs / 2, () => this.#ping())]),
    ];
  }

  /** The process id of the program that sends, while it runs. */
  get helperPid(): number | undefined {
    return this.#pipe.pid;
  }

  /** Called when HTTP listens. */
  ready(): void {
    this.#enter('ready');
  }

  /**
   * Reports that settings are being read again, until the returned function is called. Several calls at once count as one.
   * Before HTTP listens and while the gateway stops, nothing is reported.
   */
  reloading(): () => void {
    this.#numReloads++;
    if (this.#phase === 'ready') this.#enter('reloading');
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#numReloads--;
      if (this.#numReloads === 0 && this.#phase === 'reloading') this.#enter('ready');
    };
  }

  /** Must be called before anything else is done to stop. */
  stopping(): void {
    this.#enter('stopping');
  }

  /** Must be called last. Afterwards no process and no timer is left. */
  close(): void {
    for (const timer of this.#timers) timer.cancel();
    this.#pipe.close();
  }

  #enter(phase: Phase): void {
    this.#phase = phase;
    this.#lastStatus = this.#status();
    this.#pipe.send(...assignmentsOf(phase), `STATUS=${this.#lastStatus}`);
  }

  #look(): void {
    if (this.#phase !== 'ready') this.#pipe.send(`EXTEND_TIMEOUT_USEC=${EXTENSION_MS * 1000}`);
    const status = this.#status();
    if (status === this.#lastStatus) return;
    this.#lastStatus = status;
    this.#pipe.send(`STATUS=${status}`);
  }

  #ping(): void {
    this.#status();
    this.#pipe.send('WATCHDOG=1');
  }
}

function assignmentsOf(phase: Phase): string[] {
  switch (phase) {
    case 'starting':
      return [];
    case 'ready':
      return ['READY=1'];
    case 'reloading':
      // systemd uses the same clock, CLOCK_MONOTONIC.
      return ['RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`];
    case 'stopping':
      return ['STOPPING=1'];
  }
}

/** The most characters, since systemctl shows the status in one line. */
const MAX_CHARACTERS = 300;

/** The text that `systemctl status` shows, such as `ready, 12 streams, smollm2`. Other states are followed by their reason. */
export function statusLine(
  {
    state,
    openRequests,
    loadProgress,
    reason,
    backend,
    runners,
  }: Pick<RunnerStatus, 'state' | 'openRequests' | 'loadProgress' | 'reason' | 'backend' | 'runners'>,
  model: string,
): string {
  const streams = `${openRequests} ${openRequests === 1 ? 'stream' : 'streams'}`;
  const loaded = loadProgress === undefined ? '' : ` (${Math.floor(loadProgress * 100)} % loaded)`;
  const place = backend?.isFallback ? ', on the CPU instead of CUDA' : '';
  const numReady = runners?.filter((runner) => runner.state === 'ready').length;
  const serving = runners === undefined ? '' : `, ${numReady} of ${runners.length} runners`;
  const why = reason === undefined ? '' : `: ${reason}`;
  return escapeControls(`${state}, ${streams}, ${model}${serving}${place}${loaded}${why}`).slice(
    0,
    MAX_CHARACTERS,
  );
}
