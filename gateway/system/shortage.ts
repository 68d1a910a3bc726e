const codes: readonly unknown[] = ['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN', 'ERR_WORKER_INIT_FAILED'];

/** Whether an error says that the machine had no descriptors, memory, processes or threads left, which may soon be over. */
export function isShortage(error: unknown): boolean {
  return error instanceof Error && 'code' in error && codes.includes(error.code);
}
