/**
 * The backend "auto": CUDA as long as its device works and computes the model, else the CPU. It decides which kind of runner starts, and when the
 * device is tried again. A separate process probes the device, so that a runner on the CPU goes on until the device is known
 * to work.
 */
import { type Clock, systemClock, type Timer } from '../../system/clock.ts';
import { type BackendStatus, isEncoder } from '../runner.ts';
import type { RunnerEvent } from '../supervision/runner-event.ts';
import type { RunnerFailure, RunnerLauncher } from '../supervision/runner-spec.ts';
import { CudaLauncher, type CudaOptions } from './cuda-launcher.ts';
import { usableDevice } from './devices.ts';

/** A device that is lost twice within this time is not probed for quarantineMs. */
export const lossWindowMs = 10 * 60_000;
export const quarantineMs = 30 * 60_000;
/**
 * Where a model did not fit, this much more memory must be free before the device is tried again. Free memory varies a little
 * between two probes.
 */
export const memoryMarginBytes = 64 * 2 ** 20;

export interface AutoOptions extends CudaOptions {
  readonly cpuCommand: RunnerLauncher['command'];
  readonly clock?: Clock | undefined;
  /**
   * Replaces the runner on the CPU by one on the device; returns false if that is not possible now. Absent: the CPU is kept
   * once it is used.
   */
  readonly moveBack?: ((cuda: RunnerLauncher) => boolean) | undefined;
}

export function fallbackEvent(reason: string): RunnerEvent {
  const msg = 'CUDA backend requested but not available, falling back to CPU';
  return { level: 'warn', event: 'backend_fallback', msg, reason };
}

export const firstProbeMs = 10_000;
export const maxProbeMs = 5 * 60_000;

interface DeviceProbeOptions {
  /** Resolves with whether the device works. Must not reject. */
  readonly probe: (signal: AbortSignal) => Promise<boolean>;
  /** The device works. Returning false says that now is not the time, and probing goes on. */
  readonly onFound: () => boolean;
  readonly clock: Clock;
}

/** Probes repeatedly for a device, less and less often. */
class DeviceProbe {
  readonly #options: DeviceProbeOptions;
  #delayMs = firstProbeMs;
  #notBefore = 0;
  #nextAt: number | undefined;
  #timer: Timer | undefined;
  #probing: AbortController | undefined;

  constructor(options: DeviceProbeOptions) {
    this.#options = options;
  }

  /** Milliseconds until the next probe; 0 during a probe; undefined if none is planned. */
  get nextInMs(): number | undefined {
    if (this.#probing !== undefined) return 0;
    return this.#nextAt === undefined ? undefined : Math.max(0, this.#nextAt - this.#options.clock.now());
  }

  start(): void {
    if (this.#timer !== undefined || this.#probing !== undefined) return;
    const { clock } = this.#options;
    const delayMs = Math.max(this.#delayMs, this.#notBefore - clock.now());
    // The delay also grows after a success: a device that fails again soon is not really there. Only reset() makes probes
    // frequent again.
    this.#delayMs = Math.min(maxProbeMs, this.#delayMs * 2);
    this.#nextAt = clock.now() + delayMs;
    this.#timer = clock.after(delayMs, () => void this.#probeNow());
  }

  stop(): void {
    this.#timer?.cancel();
    this.#probing?.abort();
    this.#timer = undefined;
    this.#probing = undefined;
    this.#nextAt = undefined;
  }

  /** The device had worked for long before it failed, so probes are as frequent as at first. */
  reset(): void {
    this.#delayMs = firstProbeMs;
  }

  /** Starts no probe before this time has passed. */
  holdOff(delayMs: number): void {
    this.#notBefore = this.#options.clock.now() + delayMs;
  }

  async #probeNow(): Promise<void> {
    this.#timer = undefined;
    this.#nextAt = undefined;
    const probing = new AbortController();
    this.#probing = probing;
    const isThere = await this.#options.probe(probing.signal);
    if (probing.signal.aborted) return;
    this.#probing = undefined;
    if (!isThere || !this.#options.onFound()) this.start();
  }
}

export class AutoBackend {
  readonly cuda: RunnerLauncher;
  readonly cpu: RunnerLauncher;
  /** For models that only the CPU computes: it is no fallback, and no device is probed. */
  readonly #cpuAlone: RunnerLauncher;
  readonly #options: AutoOptions;
  readonly #probe: DeviceProbe;
  readonly #now: () => number;
  /** Why the CPU computes; undefined while CUDA does. */
  #reason: string | undefined;
  /** Whether CUDA is never used again. */
  #isRetired = false;
  #losses: number[] = [];
  /** Bytes that the last runner on the device held. */
  #neededBytes = 0;
  /** Set after the model did not fit. freeBytes: free memory at the first probe since then. */
  #misfit: { freeBytes: number | undefined } | undefined;

  constructor(options: AutoOptions) {
    const { clock = systemClock, moveBack } = options;
    const status = () => this.#status();
    this.#options = options;
    this.#now = () => clock.now();
    this.cuda = new CudaLauncher(options, {
      status,
      forArchitecture: (architecture) => (isEncoder(architecture) ? this.#cpuAlone : undefined),
      absent: (reason) => this.#useCpu(reason),
      fallback: (failure) => this.#fallBack(failure),
      retire: (reason) => this.#retire(reason),
      onReady: (heldBytes) => {
        this.#reason = undefined;
        this.#neededBytes = heldBytes;
      },
    });
    this.cpu = {
      command: options.cpuCommand,
      status,
      onReady: () => {
        if (moveBack !== undefined && !this.#isRetired) this.#probe.start();
      },
      leave: () => this.#probe.stop(),
    };
    this.#cpuAlone = {
      command: options.cpuCommand,
      status: () => ({ requested: 'auto', isFallback: false, reason: 'Encoders are computed on the CPU.' }),
      // The file may have been replaced by that of another model.
      prepare: async ({ current }) =>
        current === undefined || isEncoder(current.architecture) ? undefined : this.cuda,
    };
    this.#probe = new DeviceProbe({
      probe: (signal) => this.#askDevice(signal),
      onFound: () => moveBack?.(this.cuda) ?? false,
      clock,
    });
  }

  #status(): BackendStatus {
    const { nextInMs } = this.#probe;
    return {
      requested: 'auto',
      isFallback: this.#reason !== undefined,
      ...(this.#reason === undefined ? {} : { reason: this.#reason }),
      ...(nextInMs === undefined ? {} : { looksAgainInMs: nextInMs }),
    };
  }

  #fallBack({ reason, death }: RunnerFailure): RunnerLauncher {
    this.#misfit = death.exit.code === 71 ? { freeBytes: undefined } : undefined;
    if ((death.readyForMs ?? 0) >= lossWindowMs) this.#probe.reset();
    if (death.readyForMs !== undefined) this.#countLoss();
    return this.#useCpu(reason);
  }

  /** A device that computes wrong tokens is not probed: probes would find it working. */
  #retire(reason: string): RunnerLauncher {
    this.#isRetired = true;
    this.#options.log({ level: 'error', event: 'device_retired', reason });
    return this.#useCpu(reason);
  }

  #useCpu(reason: string): RunnerLauncher {
    this.#reason = reason;
    this.#options.log(fallbackEvent(reason));
    return this.cpu;
  }

  #countLoss(): void {
    const now = this.#now();
    this.#losses = [...this.#losses.filter((time) => now - time < lossWindowMs), now];
    if (this.#losses.length < 2) return;
    this.#probe.holdOff(quarantineMs);
    this.#options.log({ level: 'error', event: 'device_quarantined', quarantine_ms: quarantineMs });
  }

  async #askDevice(signal: AbortSignal): Promise<boolean> {
    const { inquiry, gpuDevice, numDevices = 1 } = this.#options;
    const device = usableDevice(await inquiry.ask(signal), gpuDevice);
    if (signal.aborted) return false;
    if (typeof device === 'string') {
      this.#reason = device;
      return false;
    }
    const { free_bytes: freeBytes } = device;
    const neededBytes = Math.ceil(this.#neededBytes / numDevices);
    if (freeBytes < neededBytes) {
      this.#reason = `CUDA device ${gpuDevice} has ${freeBytes} bytes free; the runner needs ${neededBytes}.`;
      return false;
    }
    const misfit = this.#misfit;
    if (misfit === undefined) return true;
    misfit.freeBytes ??= freeBytes;
    return freeBytes >= misfit.freeBytes + memoryMarginBytes;
  }
}
