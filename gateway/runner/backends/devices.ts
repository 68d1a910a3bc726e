/** The CUDA devices, as `cuda-runner devices` reports them: a device is usable when a kernel has run on it. */
import { accessSync, constants } from 'node:fs';
import * as z from 'zod';
import { type Clock, settlesWithin, systemClock } from '../../system/clock.ts';
import { escapeControls, lastLineOf } from '../../system/printable.ts';
import { programOutput } from '../../system/program-output.ts';

/** A driver that initialises many devices takes seconds; one that hangs never answers. */
export const maxAnswerMs = 20_000;
const MAX_ANSWER_BYTES = 256 * 1024;

const sentence = z.string().max(4096).transform(escapeControls);

const deviceSchema = z.object({
  number: z.int().min(0),
  name: sentence,
  compute_capability: sentence,
  memory_bytes: z.int().min(0),
  /** Null for a device that was not asked. */
  free_bytes: z.int().min(0).nullable(),
  usable: z.boolean().nullable(),
  reason: sentence.nullable(),
});

const reportSchema = z.object({
  /** Version of the toolkit that cuda-runner was built with. */
  cuda: sentence,
  /** The newest CUDA version that the driver supports; null: there is no driver. */
  driver: sentence.nullable(),
  devices: z.array(deviceSchema).max(256),
  /** Why no device can be used, as a sentence; null if one can. */
  reason: sentence.nullable(),
});

export type Device = z.output<typeof deviceSchema>;
/** A device on which a kernel has run. */
export type UsableDevice = Device & { readonly free_bytes: number };
export type DeviceReport = z.output<typeof reportSchema>;
/** The report, or a sentence that says why there is none. */
export type Devices = DeviceReport | string;

export class DeviceInquiry {
  readonly #file: string;
  readonly #gpuDevice: number;
  readonly #clock: Clock;
  /** The process that was started last, until it ends. A hanging driver may keep it alive; no second one is started beside it. */
  #pending: Promise<unknown> | undefined;

  /** gpuDevice: the device that is to run a kernel. The others are only listed, since that takes a context on each. */
  constructor(file: string, gpuDevice: number, clock: Clock = systemClock) {
    this.#file = file;
    this.#gpuDevice = gpuDevice;
    this.#clock = clock;
  }

  /** Asks for the devices. Never rejects. Aborting the signal ends the process. */
  async ask(signal: AbortSignal): Promise<Devices> {
    if (this.#pending !== undefined)
      return `\`${this.#file} devices\` is still running since an earlier probe; its driver may hang.`;
    const asked = this.#run(signal).finally(() => (this.#pending = undefined));
    this.#pending = asked;
    if (await settlesWithin(asked, maxAnswerMs + 1000, this.#clock)) return asked;
    return `\`${this.#file} devices\` cannot be ended; its driver may hang.`;
  }

  async #run(signal: AbortSignal): Promise<Devices> {
    const args = ['devices', '--json', '--gpu-device', String(this.#gpuDevice)];
    const limits = { timeoutMs: maxAnswerMs, maxBytes: MAX_ANSWER_BYTES, signal };
    const { stdout, stderr, fault } = await programOutput(this.#file, args, limits);
    const report = parsed(stdout);
    if (report !== undefined) return report;
    const lastLine = lastLineOf(stderr);
    const what = `${this.#file} devices gave no report: ${fault ?? 'it ended with status 0'}`;
    return escapeControls(lastLine === '' ? `${what}.` : `${what}: ${lastLine}`);
  }
}

function parsed(text: string): DeviceReport | undefined {
  try {
    return reportSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** The device of this number if a kernel has run on it, else a sentence that says why it cannot be used. */
export function usableDevice(devices: Devices, number: number): UsableDevice | string {
  if (typeof devices === 'string') return devices;
  const device = devices.devices.find((each) => each.number === number);
  if (device === undefined) {
    const there = devices.devices.map((each) => each.number).join(', ');
    return (
      devices.reason ??
      `CUDA device ${number} does not exist; devices here: ${there === '' ? 'none' : there}.`
    );
  }
  const { usable, free_bytes, reason } = device;
  if (usable === true && free_bytes !== null) return { ...device, free_bytes };
  return reason ?? `No kernel runs on the CUDA device ${number}.`;
}

/** Why the file cannot be run, as the end of a sentence that begins with its name; undefined if it can. */
export function notRunnable(file: string): string | undefined {
  try {
    accessSync(file, constants.X_OK);
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === 'ENOENT' || code === 'ENOTDIR' ? 'does not exist' : 'may not be executed';
  }
}
