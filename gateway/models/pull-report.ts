/** What a pull reports: its progress, and why it failed. */
const barChars = 30;
const linePercent = 10;

export interface ProgressOutput {
  readonly isTTY?: boolean | undefined;
  write(text: string): unknown;
}

/** Reports that another process fetches the same thing. */
export function waitingFor(name: string, output: ProgressOutput): (ownerPid: number) => void {
  return (ownerPid) => output.write(`Process ${ownerPid} is fetching ${name}; waiting for it.\n`);
}

/** Progress of a task with a known number of bytes: a bar on a terminal, a line for each tenth elsewhere. */
export class Progress {
  readonly #what: string;
  readonly #totalBytes: number;
  readonly #output: ProgressOutput;
  readonly #stepPercent: number;
  #nextPercent = 0;

  constructor(what: string, totalBytes: number, output: ProgressOutput) {
    this.#what = what;
    this.#totalBytes = totalBytes;
    this.#output = output;
    this.#stepPercent = output.isTTY === true ? 1 : linePercent;
  }

  update(bytes: number): void {
    const percent = Math.min(100, Math.floor((100 * bytes) / this.#totalBytes));
    if (percent < this.#nextPercent) return;
    this.#nextPercent = percent - (percent % this.#stepPercent) + this.#stepPercent;
    const size = `${megabytes(Math.min(bytes, this.#totalBytes))} of ${megabytes(this.#totalBytes)} MB`;
    if (this.#output.isTTY === true) {
      const filled = Math.floor((percent * barChars) / 100);
      const bar = '#'.repeat(filled) + '-'.repeat(barChars - filled);
      this.#output.write(`\r${this.#what} [${bar}] ${percent} %, ${size}`);
    } else {
      this.#output.write(`${this.#what}: ${percent} %, ${size}\n`);
    }
  }

  done(): void {
    this.update(this.#totalBytes);
    if (this.#output.isTTY === true) this.#output.write('\n');
  }
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}

/** Why a model cannot be fetched: a sentence that also says what to do about it. */
export class PullError extends Error {
  override readonly name = 'PullError';
  /**
   * 65: the bytes are not those that were asked for. 66: there is no such file. 69: something outside is missing or does not
   * answer. 71: the operating system refused.
   */
  readonly exitCode: 65 | 66 | 69 | 71;

  constructor(exitCode: 65 | 66 | 69 | 71, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

/** Turns an error of the file system into a PullError. Returns other errors unchanged. */
export function asSystemFault(name: string, folder: string, error: unknown): unknown {
  if (!(error instanceof Error) || !('code' in error)) return error;
  return new PullError(71, `Fetching ${name} into ${folder} failed: ${error.message}.`, { cause: error });
}
