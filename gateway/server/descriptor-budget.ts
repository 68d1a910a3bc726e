/**
 * Says how many connections fit into the process's limit of file descriptors. The rest is kept for everything else: a
 * runner that is started before its predecessor is closed, a model file, a template's process.
 */
import { readdirSync, readFileSync } from 'node:fs';

/**
 * Descriptors kept free of connections: a runner's pipes (3), the reserve for the next start of a program (12), the process of
 * a template (4), and files that are open for a moment (a model, a crash report, a recording, a name lookup).
 */
export const reservedDescriptors = 24;

export interface Descriptors {
  /** Undefined if no limit is set. */
  readonly limit: number | undefined;
  readonly inUse: number;
}

/**
 * The descriptors of this process, as the kernel counts them. Node raises the soft limit to the hard one when it starts.
 */
export function ownDescriptors(): Descriptors {
  const [, soft] = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
  if (soft === undefined) throw new Error('/proc/self/limits has no line "Max open files".');
  return {
    limit: soft === 'unlimited' ? undefined : Number(soft),
    inUse: readdirSync('/proc/self/fd').length,
  };
}

/** Returns how many of the wanted connections there is room for; 0 if there is room for none. */
export function connectionsWithin({ limit, inUse }: Descriptors, wanted: number): number {
  if (limit === undefined) return wanted;
  return Math.max(0, Math.min(wanted, limit - inUse - reservedDescriptors));
}

/** There are not enough descriptors to serve at all. */
export class DescriptorsError extends Error {
  override readonly name = 'DescriptorsError';
}
