import type { Caller } from '../system/caller.ts';
import { SharedLimit } from '../system/fair-shares.ts';

/** How callers share the journal: which jobs are forgotten for one more, and who gets no more. */

/** A kept job, as far as others want its room. */
export interface Holding {
  readonly sharer: Caller;
  /** Milliseconds since 1970; undefined while the job has not ended: it is then not forgotten. */
  readonly endedMs: number | undefined;
  readonly numBytes: number;
  /** The bytes that the job may grow to. Equal to numBytes once it has ended. */
  readonly reservedBytes: number;
}

export interface RoomBounds {
  readonly maxJobs: number;
  /** The limit for all jobs together. A running job counts with the bytes that it may still grow to. */
  readonly maxBytes: number;
}

export class NoRoom {
  readonly message: string;
  /** Whether it would be in the way of an empty journal too. */
  readonly isForever: boolean;

  constructor(message: string, isForever: boolean) {
    this.message = message;
    this.isForever = isForever;
  }
}

/**
 * The ended jobs to forget for one more: those of its caller first, then those of callers that have more than their share, the
 * oldest first. Where jobs that run leave too little room, a caller still gets its share, beyond the limits, as everywhere
 * (SharedLimit). If that is not enough either, nothing is forgotten.
 */
export function roomFor<Job extends Holding>(
  one: Holding,
  kept: readonly Job[],
  { maxJobs, maxBytes }: RoomBounds,
): readonly Job[] | NoRoom {
  const room = new Room(one, kept, { maxJobs, maxBytes });
  return (
    room.leastToForget(() => room.isInQuota && room.isInLimits) ??
    room.leastToForget(() => room.isInQuota && room.isInShare) ??
    room.refusal()
  );
}

class Room<Job extends Holding> {
  readonly #one: Holding;
  readonly #jobs: SharedLimit;
  readonly #bytes: SharedLimit;
  /** The jobs that may be forgotten, in this order. */
  readonly #ended: readonly Job[];

  constructor(one: Holding, kept: readonly Job[], { maxJobs, maxBytes }: RoomBounds) {
    this.#one = one;
    this.#jobs = new SharedLimit(maxJobs);
    this.#bytes = new SharedLimit(maxBytes);
    for (const each of [...kept, one]) this.#hold(each);
    const ended = kept.filter(({ endedMs }) => endedMs !== undefined);
    ended.sort(
      (a, b) => Number(this.#isOwn(b)) - Number(this.#isOwn(a)) || (a.endedMs ?? 0) - (b.endedMs ?? 0),
    );
    this.#ended = ended;
  }

  get isInLimits(): boolean {
    return this.#jobs.total <= this.#jobs.limit && this.#bytes.total <= this.#bytes.limit;
  }

  get isInShare(): boolean {
    const { sharer } = this.#one;
    return this.#jobs.hasRoom(sharer, 0) && this.#bytes.hasRoom(sharer, 0);
  }

  get isInQuota(): boolean {
    const { quotas } = this.#one.sharer;
    return (
      this.#holdsAtMost(this.#jobs, quotas?.journalJobs) &&
      this.#holdsAtMost(this.#bytes, quotas?.journalBytes)
    );
  }

  #holdsAtMost(resource: SharedLimit, quota = Number.POSITIVE_INFINITY): boolean {
    return resource.heldBy(this.#one.sharer) <= quota;
  }

  /** Undefined if it is never enough. */
  leastToForget(isEnough: () => boolean): readonly Job[] | undefined {
    const forgotten: Job[] = [];
    for (const each of this.#ended) {
      if (isEnough()) break;
      if (!this.#isOwn(each) && !this.#hasMore(each)) continue;
      this.#release(each);
      forgotten.push(each);
    }
    if (isEnough()) return forgotten;
    for (const each of forgotten) this.#hold(each);
    return undefined;
  }

  refusal(): NoRoom {
    const { sharer } = this.#one;
    const { journalJobs, journalBytes } = sharer.quotas ?? {};
    const numBytes = heldBytesOf(this.#one);
    const isLarge = numBytes > Math.min(this.#bytes.limit, journalBytes ?? Number.POSITIVE_INFINITY);
    const whole = { jobs: this.#jobs.total - 1, bytes: this.#bytes.total - numBytes };
    for (const each of this.#ended) if (this.#isOwn(each)) this.#release(each);
    const own = { jobs: this.#jobs.heldBy(sharer) - 1, bytes: this.#bytes.heldBy(sharer) - numBytes };
    if (!this.#holdsAtMost(this.#jobs, journalJobs))
      return new NoRoom(
        `The caller "${sharer.name}" has ${own.jobs} unfinished jobs in the journal, and one more would exceed its quota of ${journalJobs} (max-journal-jobs in the keys file).`,
        false,
      );
    if (!this.#holdsAtMost(this.#bytes, journalBytes))
      return new NoRoom(
        `The unfinished jobs of the caller "${sharer.name}" may take ${own.bytes} bytes of the journal, and this one, which may take ${numBytes}, would exceed its quota of ${journalBytes} (max-journal-bytes in the keys file).`,
        isLarge,
      );
    const what =
      whole.jobs >= this.#jobs.limit
        ? `it has ${whole.jobs} jobs, and --journal-max-jobs is ${this.#jobs.limit}`
        : `${whole.bytes} of the ${this.#bytes.limit} bytes of --journal-max-bytes are taken or reserved, and this job may grow to ${numBytes}`;
    return new NoRoom(`The journal is full: ${what}.`, isLarge);
  }

  #isOwn({ sharer }: Holding): boolean {
    return sharer.name === this.#one.sharer.name;
  }

  #hasMore({ sharer }: Holding): boolean {
    return (
      this.#jobs.heldBy(sharer) > this.#jobs.shareOf(sharer) ||
      this.#bytes.heldBy(sharer) > this.#bytes.shareOf(sharer)
    );
  }

  #hold(each: Holding): void {
    const sharer = this.#sharerOf(each);
    this.#jobs.hold(sharer, 1);
    this.#bytes.hold(sharer, heldBytesOf(each));
  }

  #release(each: Holding): void {
    this.#jobs.release(each.sharer, 1);
    this.#bytes.release(each.sharer, heldBytesOf(each));
  }

  /** The caller's shares may have changed since the job was kept. */
  #sharerOf(each: Holding): Caller {
    return this.#isOwn(each) ? this.#one.sharer : each.sharer;
  }
}

function heldBytesOf({ reservedBytes, numBytes }: Holding): number {
  return Math.max(reservedBytes, numBytes);
}
