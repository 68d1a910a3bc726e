import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { CPU_RUNNER, TINY_MODEL } from '../../fixtures/default-model.ts';
import { median } from '../statistics.ts';

/**
 * Measures how long `runnel serve` takes until it listens, and how long Node takes to do nothing. The two take turns,
 * NUM_STARTS times.
 */

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const NUM_STARTS = 15;
const SERVE = [
  'gateway/runnel.js',
  'serve',
  ...['--port', '0', '--model', TINY_MODEL, '--runner', CPU_RUNNER, '--threads', '1'],
];

export interface StartTimes {
  /** Medians, in milliseconds from the start of the process. */
  readonly listeningMs: number;
  readonly nothingMs: number;
}

export async function measureStarts(): Promise<StartTimes> {
  const listening: number[] = [];
  const nothing: number[] = [];
  for (let count = 0; count < NUM_STARTS; count++) {
    listening.push(await untilListening());
    nothing.push(await untilExit());
  }
  return { listeningMs: median(listening), nothingMs: median(nothing) };
}

async function untilListening(): Promise<number> {
  const beginMs = performance.now();
  const child = spawn(process.execPath, SERVE, { cwd: ROOT, stdio: ['ignore', 'pipe', 'ignore'] });
  const exit = once(child, 'exit');
  let said = '';
  for await (const chunk of child.stdout) {
    said += chunk;
    if (said.includes('Runnel listens on')) break;
  }
  const ms = performance.now() - beginMs;
  child.kill('SIGKILL');
  await exit;
  if (!said.includes('Runnel listens on')) throw new Error(`runnel serve did not listen: ${said}`);
  return ms;
}

async function untilExit(): Promise<number> {
  const beginMs = performance.now();
  await once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit');
  return performance.now() - beginMs;
}
