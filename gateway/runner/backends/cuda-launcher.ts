import { type Clock, settlesWithin, systemClock } from '../../system/clock.ts';
import type { BackendStatus, RunnerInfo } from '../runner.ts';
import type { RunnerEvent } from '../supervision/runner-event.ts';
import type { RunnerFailure, RunnerLauncher } from '../supervision/runner-spec.ts';
import { type DeviceInquiry, usableDevice } from './devices.ts';

/**
 * How long the launcher waits until a dead runner's memory is free. After that the next runner starts and reports what it
 * lacks.
 */
export const maxMemoryWaitMs = 10_000;
export const memoryPollMs = 250;

export interface CudaOptions {
  readonly command: RunnerLauncher['command'];
  readonly gpuDevice: number;
  readonly inquiry: Pick<DeviceInquiry, 'ask'>;
  readonly log: (event: RunnerEvent) => void;
  readonly clock?: Clock | undefined;
}

/** Decides which backend is used; AutoBackend implements it. */
export interface Choice {
  status(): BackendStatus;
  /** No usable device: returns the launcher to use instead. */
  absent(reason: string): RunnerLauncher;
  fallback(failure: RunnerFailure): RunnerLauncher;
  onReady(heldBytes: number): void;
}

export class CudaLauncher implements RunnerLauncher {
  readonly command: RunnerLauncher['command'];
  readonly #options: CudaOptions;
  readonly #choice: Choice | undefined;
  /** Bytes that the last ready runner held on the device; undefined: there is nothing to wait for. */
  #heldBytes: number | undefined;
  #left = new AbortController();

  /** choice: absent if only CUDA may be used. */
  constructor(options: CudaOptions, choice?: Choice) {
    this.#options = options;
    this.#choice = choice;
    this.command = options.command;
  }

  status(): BackendStatus {
    return this.#choice?.status() ?? { requested: 'cuda', isFallback: false };
  }

  fallback(failure: RunnerFailure): RunnerLauncher | undefined {
    return this.#choice?.fallback(failure);
  }

  onReady({ device, weightsBytes, kvCacheBytes }: RunnerInfo): void {
    this.#heldBytes = weightsBytes + kvCacheBytes;
    this.#choice?.onReady(this.#heldBytes);
    const msg = 'Initialized CUDA device for inference';
    this.#options.log({ level: 'info', event: 'backend_ready', msg, device });
  }

  leave(): void {
    this.#left.abort();
  }

  /** Waits for free memory: a driver takes its time to free what a dead process held, and the next runner needs as much. */
  async prepare(): Promise<RunnerLauncher | undefined> {
    const wantedBytes = this.#heldBytes ?? 0;
    // Without a choice of backend the runner itself reports what is missing.
    if (this.#choice === undefined && wantedBytes === 0) return undefined;
    this.#heldBytes = undefined;
    this.#left = new AbortController();
    const { signal } = this.#left;
    const { clock = systemClock, inquiry, gpuDevice, log } = this.#options;
    const left = new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    const startedMs = clock.now();
    for (;;) {
      const device = usableDevice(await inquiry.ask(signal), gpuDevice);
      if (signal.aborted) return undefined;
      if (typeof device === 'string') return this.#choice?.absent(device);
      if (device.free_bytes >= wantedBytes) return undefined;
      if (clock.now() - startedMs >= maxMemoryWaitMs) {
        const bytes = { wanted_bytes: wantedBytes, free_bytes: device.free_bytes };
        log({ level: 'warn', event: 'device_memory_missing', ...bytes });
        return undefined;
      }
      await settlesWithin(left, memoryPollMs, clock);
    }
  }
}
