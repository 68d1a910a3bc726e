/**
 * How many connections the process's limit of descriptors has room for. What is left over is what everything else needs: a
 * runner that is started while the one before is not closed yet, a model file, a template's process.
 */
import { readdirSync, readFileSync } from 'node:fs';

/**
 * Kept free of connections: two runners with their pipes and what a spawn needs besides (14), the process of a template (4), and
 * files that are open for a moment (a model, a crash report, a recording, a name that is looked up).
 */
export const reservedDescriptors = 24;

export interface Descriptors {
  /** Undefined: no limit is set. */
  readonly limit: number | undefined;
  readonly inUse: number;
}

/** Of this process, as the kernel has it. Node raises the limit to the hard one when it starts. */
export function ownDescriptors(): Descriptors {
  const [, soft] = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  if (soft === undefined) throw new Error('/proc/self/limits has no line "Max open files".');
  return {
    limit: soft === 'unlimited' ? undefined : Number(soft),
    inUse: readdirSync('/proc/self/fd').length,
  };
}

/** Of the connections that are wanted, as many as there is room for; 0 if there is room for none. */
export function connectionsWithin({ limit, inUse }: Descriptors, wanted: number): number {
  if (limit === undefined) return wanted;
  return Math.max(0, Math.min(wanted, limit - inUse - reservedDescriptors));
}

/** There are not enough to serve at all. */
export class DescriptorsError extends Error {
  override readonly name = 'DescriptorsError';
}
