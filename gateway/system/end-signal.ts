import { ExitCode } from '../errors/exit-code.ts';

/** Whoever tells npm and its whole group, as a terminal does, is heard twice: npm passes on what it is told. */
export const sameSignalMs = 500;
/** How often is looked whether npx is still there. */
const parentCheckMs = 250;

/**
 * Resolves with the first SIGTERM or SIGINT, or when the npx that has started this process is gone, which may not have
 * said so, or the program that has started it with a channel to it. A second signal ends the process at once.
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

/** Not: by something that was itself started by npx, and may outlive it. */
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
