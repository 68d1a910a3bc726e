import { UsageError } from '../errors/exit-code.ts';
import type { Log } from '../telemetry/log.ts';
import { NotifyPipe } from './notify-pipe.ts';

/**
 * Tells systemd how the gateway is (sd_notify(3)). The gateway, not the runner: a runner that is sick is the gateway's
 * business, and a restart of the unit would end the streams that the gateway can save.
 */

/** How often the status is looked at; it is sent when it has changed. */
export const STATUS_INTERVAL_MS = 1000;

/** In a phase that systemd bounds, it is asked for this much more time at each look: a gateway that hangs gets no more. */
export const EXTENSION_MS = 10_000;

/** The phases but for `ready` have a time limit in the unit. */
type Phase = 'starting' | 'ready' | 'reloading' | 'stopping';

export interface NotifierOptions {
  /** The state in a line, without control characters. Asked at every tick. */
  readonly status: () => string;
  readonly log: Log;
  /** The program that sends. */
  readonly file?: string;
}

/** undefined where no systemd asks to be told. UsageError for variables that systemd would not have set so. */
export function createNotifier(env: NodeJS.ProcessEnv, options: NotifierOptions): Notifier | undefined {
  const socket = env.NOTIFY_SOCKET;
  return socket === undefined ? undefined : new Notifier(socket, watchdogMs(env, process.pid), options);
}

/** Time after which systemd gives up a gateway that says nothing; undefined if it has no watchdog for this process. */
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
  readonly #timers: readonly NodeJS.Timeout[];
  #phase: Phase = 'starting';
  #numReloads = 0;
  #lastStatus = '';

  constructor(socket: string, watchdogAfterMs: number | undefined, { status, ...options }: NotifierOptions) {
    this.#status = status;
    this.#pipe = new NotifyPipe({ socket, onReplaced: () => this.#enter(this.#phase), ...options });
    this.#timers = [
      setInterval(() => this.#look(), STATUS_INTERVAL_MS),
      // A timer that fires is an event loop that turns, and a status that is given is a supervisor that answers.
      ...(watchdogAfterMs === undefined ? [] : [setInterval(() => this.#ping(), watchdogAfterMs / 2)]),
    ];
    for (const timer of this.#timers) timer.unref();
  }

  /** Of the program that sends, while it runs. */
  get helperPid(): number | undefined {
    return this.#pipe.pid;
  }

  /** HTTP listens. */
  ready(): void {
    this.#enter('ready');
  }

  /**
   * Settings are being read again, until the function that is returned is called. Several at once are one; one before
   * HTTP listens, or while the gateway stops, is told by nothing.
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

  /** To be called before anything else is done about stopping. */
  stopping(): void {
    this.#enter('stopping');
  }

  /** The last thing. Nothing is left afterwards: no process, no timer. */
  close(): void {
    for (const timer of this.#timers) clearInterval(timer);
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
      // The same clock as systemd's: CLOCK_MONOTONIC.
      return ['RELOADING=1', `MONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`];
    case 'stopping':
      return ['STOPPING=1'];
  }
}
