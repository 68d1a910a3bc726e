import type { BackendStatus, RunnerInfo } from '../runner.ts';
import type { RunnerEvent } from '../supervision/runner-event.ts';
import type { LaunchedModel, RunnerFailure, RunnerLauncher } from '../supervision/runner-spec.ts';
import { type DeviceInquiry, usableDevice } from './devices.ts';

export interface CudaOptions {
  readonly command: RunnerLauncher['command'];
  readonly gpuDevice: number;
  /** Devices of a runner, from that one on; one by default. */
  readonly numDevices?: number | undefined;
  readonly inquiry: Pick<DeviceInquiry, 'ask'>;
  readonly log: (event: RunnerEvent) => void;
}

/** Decides which backend is used; AutoBackend implements it. */
export interface Choice {
  status(): BackendStatus;
  /** The launcher to use instead, if no device computes models of this architecture. */
  forArchitecture(architecture: string): RunnerLauncher | undefined;
  /** No usable device: returns the launcher to use instead. */
  absent(reason: string): RunnerLauncher;
  fallback(failure: RunnerFailure): RunnerLauncher;
  retire(reason: string): RunnerLauncher;
  onReady(heldBytes: number): void;
}

export class CudaLauncher implements RunnerLauncher {
  readonly #options: CudaOptions;
  readonly #choice: Choice | undefined;
  /** Bytes that the last ready runner held on each of its devices; undefined: none was ready since the last start. */
  #heldBytes: number | undefined;
  /** The same for the start under way. */
  #awaitedBytes: number | undefined;
  /** Whether a runner was ever ready, which had all devices that were asked for. */
  #wasReady = false;
  #left = new AbortController();

  /** choice: absent if only CUDA may be used. */
  constructor(options: CudaOptions, choice?: Choice) {
    this.#options = options;
    this.#choice = choice;
  }

  /**
   * A driver takes its time to free what a dead process held, and the next runner needs as much, so it waits for it. Of
   * several devices one may be lost: the model is then computed by those that are left, if it fits.
   */
  command(...which: Parameters<RunnerLauncher['command']>): ReturnType<RunnerLauncher['command']> {
    const command = this.#options.command(...which);
    const { numDevices = 1 } = this.#options;
    const awaited = this.#awaitedBytes;
    const args = [...command.args, ...(numDevices > 1 && this.#wasReady ? ['--fewer-gpus'] : [])];
    if (awaited !== undefined) args.push('--await-free-bytes', String(awaited));
    return { ...command, args };
  }

  status(): BackendStatus {
    return this.#choice?.status() ?? { requested: 'cuda', isFallback: false };
  }

  fallback(failure: RunnerFailure): RunnerLauncher | undefined {
    return this.#choice?.fallback(failure);
  }

  retire(reason: string): RunnerLauncher | undefined {
    return this.#choice?.retire(reason);
  }

  onReady({ device, weightsBytes, kvCacheBytes, numRanks }: RunnerInfo): void {
    const heldBytes = weightsBytes + kvCacheBytes;
    this.#heldBytes = Math.floor(heldBytes / numRanks);
    this.#wasReady = true;
    this.#choice?.onReady(heldBytes);
    const msg = 'Initialized CUDA device for inference';
    this.#options.log({ level: 'info', event: 'backend_ready', msg, device });
  }

  leave(): void {
    this.#left.abort();
  }

  /**
   * Asks for the device where another backend may be used instead, but not when a runner was ready on it: then the next runner
   * finds out soonest, and open streams wait for it.
   */
  async prepare({ current }: Pick<LaunchedModel, 'current'>): Promise<RunnerLauncher | undefined> {
    const other = current && this.#choice?.forArchitecture(current.architecture);
    if (other !== undefined) return other;
    this.#awaitedBytes = this.#heldBytes;
    this.#heldBytes = undefined;
    if (this.#choice === undefined || this.#awaitedBytes !== undefined) return undefined;
    this.#left = new AbortController();
    const { signal } = this.#left;
    const { inquiry, gpuDevice } = this.#options;
    const device = usableDevice(await inquiry.ask(signal), gpuDevice);
    return signal.aborted || typeof device !== 'string' ? undefined : this.#choice.absent(device);
  }
}
