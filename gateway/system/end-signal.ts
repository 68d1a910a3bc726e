import { ExitCode } from '../errors/exit-code.ts';

/**
 * A signal that comes again within this time counts as one. A terminal signals the whole process group, and npm passes the
 * signal on as well.
 */
export const sameSignalMs = 500;
const parentCheckMs = 250;

/**
 * Resolves with the first SIGTERM or SIGINT, or when the program that started this process is gone: npx, which may not have
 * sent a signal, or a program with an IPC channel. A second signal ends the process at once.
 */
export function endSignal(): Promise<NodeJS.Signals | 'npx_gone' | 'starter_gone'> {
  return new Promise((resolve) => {
    let firstMs: number | undefined;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        const nowMs = performance.now();
        if (firstMs !== undefined && nowMs - firstMs >= sameSignalMs) process.exit(ExitCode.internal);
        firstMs ??= nowMs;
        resolve(signal);
      });
    }
    if (process.connected) {
      process.once('disconnect', () => resolve('starter_gone'));
      process.channel?.unref();
    }
    if (isStartedByNpx(process.env)) watchParent(() => resolve('npx_gone'));
  });
}

/** Whether npx started this process itself. A process started by a child of npx may outlive npx. */
function isStartedByNpx(env: NodeJS.ProcessEnv): boolean {
  return env.npm_lifecycle_event === 'npx' && /\brunnel\b/.test(env.npm_lifecycle_script ?? '');
}

function watchParent(onGone: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    onGone();
  }, parentCheckMs);
  timer.unref();
}
