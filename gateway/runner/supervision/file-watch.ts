/**
 * Waits until a file of a model is another one than it was: other device, inode, size or time of modification. It polls,
 * because no notice from the kernel covers all file systems that models lie on.
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

  /** identity: of the files as they are now; never rejects. before: the identity that was of no use. onChange is called once; the watch is over then. */
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
    const isChanged = (await this.#identity()) !== (await this.#before);
    if (this.#isStopped) return;
    if (isChanged) this.#onChange();
    else this.#schedule();
  }
}
