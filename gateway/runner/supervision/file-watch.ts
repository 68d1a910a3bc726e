/**
 * Waits until the files of a model have another identity. It polls, because no notification of the kernel covers all file
 * systems that hold models.
 */
import { type Clock, systemClock, type Timer } from '../../system/clock.ts';

export class FileWatch {
  readonly #identity: () => Promise<string>;
  readonly #before: Promise<string>;
  readonly #pollMs: number;
  readonly #onChange: () => void;
  readonly #clock: Clock;
  #timer: Timer | undefined;
  #isStopped = false;

  /**
   * identity: the files' identity now; if it rejects, they count as unchanged. before: the identity that could not be used.
   * onChange is called once, which ends the watch.
   */
  constructor(
    identity: () => Promise<string>,
    before: Promise<string>,
    pollMs: number,
    onChange: () => void,
    clock: Clock = systemClock,
  ) {
    this.#identity = identity;
    this.#before = before;
    this.#pollMs = pollMs;
    this.#onChange = onChange;
    this.#clock = clock;
    this.#schedule();
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  #schedule(): void {
    this.#timer = this.#clock.after(this.#pollMs, () => void this.#poll());
  }

  async #poll(): Promise<void> {
    const before = await this.#before;
    const isChanged = (await this.#identity().catch(() => before)) !== before;
    if (this.#isStopped) return;
    if (isChanged) this.#onChange();
    else this.#schedule();
  }
}
