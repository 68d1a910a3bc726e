/** Decides which models are unloaded to make room for another one. It knows of no runner, file or clock. */

/** A model that takes memory, or is about to. */
export interface Resident {
  readonly name: string;
  readonly bytes: number;
  /** When it was last asked for or had a request open, by a monotonic clock. */
  readonly lastUsedMs: number;
  /** It is being loaded or has requests, so its memory is free only when they are done. */
  readonly isBusy: boolean;
  /** All these requests are in the background: it leaves as one that nobody uses. */
  readonly isYielding: boolean;
  /** It is being unloaded, or will be when its requests are done. */
  readonly isLeaving: boolean;
  readonly isPinned: boolean;
  /** A client has asked for it to be unloaded, and nobody has used it since. */
  readonly isUnloadRequested: boolean;
}

export interface Wanted {
  readonly name: string;
  readonly bytes: number;
}

/** A sentence if the model can never fit, else the models that must be unloaded first; an empty list: it fits now. */
export type Room<R extends Resident> = string | readonly R[];

/**
 * Decides what must be unloaded so that the model fits: first models that are leaving anyway, then idle and yielding ones, then busy
 * ones;
 * within each group, the least recently used first. Models that need not leave are left out. Returns a sentence with figures
 * if even all of them are not enough.
 */
export function roomFor<R extends Resident>(
  wanted: Wanted,
  budgetBytes: number,
  residents: readonly R[],
): Room<R> {
  // A pinned model that the operator has removed leaves like any other.
  const stays = ({ isPinned, isLeaving }: R): boolean => isPinned && !isLeaving;
  const pinnedBytes = sumOf(residents.filter(stays));
  if (wanted.bytes > budgetBytes - pinnedBytes) return refusalOf(wanted, budgetBytes, pinnedBytes);
  let missingBytes = wanted.bytes - (budgetBytes - sumOf(residents));
  if (missingBytes <= 0) return [];
  const leaving: R[] = [];
  for (const resident of residents.filter((resident) => !stays(resident)).sort(inOrderOfLeaving)) {
    if (missingBytes <= 0) break;
    leaving.push(resident);
    missingBytes -= resident.bytes;
  }
  // A small model that was chosen first need not leave if a larger one must leave too.
  let spareBytes = -missingBytes;
  return leaving.filter(({ bytes, isLeaving }) => {
    if (isLeaving || bytes > spareBytes) return true;
    spareBytes -= bytes;
    return false;
  });
}

/** The models that nobody uses, and that shall be unloaded or have not been used for keepAliveMs. */
export function idleFor<R extends Resident>(
  residents: readonly R[],
  keepAliveMs: number,
  nowMs: number,
): readonly R[] {
  return residents.filter(
    ({ isPinned, isBusy, isLeaving, isUnloadRequested, lastUsedMs }) =>
      !isPinned && !isBusy && !isLeaving && (isUnloadRequested || nowMs - lastUsedMs >= keepAliveMs),
  );
}

function inOrderOfLeaving(one: Resident, other: Resident): number {
  return (
    Number(other.isLeaving) - Number(one.isLeaving) ||
    Number(one.isBusy && !one.isYielding) - Number(other.isBusy && !other.isYielding) ||
    one.lastUsedMs - other.lastUsedMs
  );
}

function refusalOf({ name, bytes }: Wanted, budgetBytes: number, pinnedBytes: number): string {
  const pinned = pinnedBytes === 0 ? '' : `, and pinned models use ${pinnedBytes} of that`;
  return `The model ${name} needs ${bytes} bytes of memory; all models together may use ${budgetBytes}${pinned}; raise --memory-budget-bytes if the machine has more, or lower --kv-cache-bytes or --max-model-len.`;
}

function sumOf(residents: readonly Resident[]): number {
  return residents.reduce((sum, { bytes }) => sum + bytes, 0);
}
