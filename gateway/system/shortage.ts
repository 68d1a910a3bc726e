import { UnavailableError } from '../errors/unavailable-error.ts';

const codes: readonly unknown[] = ['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN'];

/** Whether an error says that the machine had no descriptors, memory, processes or threads left, which may soon be over. */
export function isShortage(error: unknown): boolean {
  if (error instanceof UnavailableError) return true;
  return error instanceof Error && 'code' in error && codes.includes(error.code);
}
