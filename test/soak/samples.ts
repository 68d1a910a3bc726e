/** What the two processes hold, from the outside and by what they say of themselves. */

import { readdirSync, readFileSync } from 'node:fs';
import type { Gateway } from '../fixtures/gateway.ts';
import { privateBytes } from '../fixtures/process-memory.ts';
import { within } from '../fixtures/within.ts';
import type { LogEvents } from './log-events.ts';

const PROBE_MS = 30_000;

export interface Sample {
  readonly hours: number;
  /** What is no file's, after collections that gave back what is free. */
  readonly gatewayMemoryBytes: number;
  /** After collections, compiled code among it. */
  readonly gatewayHeapBytes: number;
  readonly gatewayCodeBytes: number;
  /** Of objects whose memory is not in the heap: buffers, and what native code holds for them. */
  readonly gatewayExternalBytes: number;
  readonly gatewayDescriptors: number;
  readonly gatewayTimers: number;
  /** Process ids: one that was killed just now is among them, until it is asked how it ended. */
  readonly zombies: readonly number[];
  readonly openRequests: number;
  /** Of the runner, if there was one just then. */
  readonly runnerPid: number | undefined;
  readonly runnerMemoryBytes: number | undefined;
  readonly runnerDescriptors: number | undefined;
  readonly usedBlocks: number | undefined;
}

export async function takeSample(gateway: Gateway, log: LogEvents, startedMs: number): Promise<Sample> {
  const pid = gateway.process.pid as number;
  const told = log.next('probe');
  gateway.process.kill('SIGUSR2');
  const probe = await within(PROBE_MS, 'What the gateway holds', told);
  const { runner } = await gateway.health();
  const { kv_blocks: blocks, kv_blocks_free: free } = runner;
  return {
    hours: (Date.now() - startedMs) / 3_600_000,
    gatewayMemoryBytes: ofProcess(() => privateBytes(pid)) ?? 0,
    gatewayHeapBytes: Number(probe.heap_bytes),
    gatewayCodeBytes: Number(probe.code_bytes),
    gatewayExternalBytes: Number(probe.external_bytes),
    gatewayDescriptors: descriptorsOf(pid) ?? 0,
    gatewayTimers: Number(probe.timers),
    zombies: zombiesOf(pid),
    openRequests: runner.open_requests,
    runnerPid: runner.pid ?? undefined,
    runnerMemoryBytes: runner.pid === null ? undefined : ofProcess(() => privateBytes(runner.pid as number)),
    runnerDescriptors: runner.pid === null ? undefined : descriptorsOf(runner.pid),
    usedBlocks: blocks === null || free === null ? undefined : blocks - free,
  };
}

/** undefined once the process is gone. */
function descriptorsOf(pid: number): number | undefined {
  return ofProcess(() => readdirSync(`/proc/${pid}/fd`).length);
}

/** Children that are dead and that nobody has asked how they ended. */
function zombiesOf(parent: number): number[] {
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const zombies = processes.filter((pid) => {
    const stat = ofProcess(() => readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? '';
    const [state, itsParent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return state === 'Z' && Number(itsParent) === parent;
  });
  return zombies.map(Number);
}

function ofProcess<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
