import { join } from 'node:path';
import { Random } from '../../fixtures/random.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { until } from '../../fixtures/within.ts';
import type { Runner } from '../engines/runnel.ts';
import type { Figures, Subject } from '../interleave.ts';
import { firstTokenAt } from './first-token.ts';
import { RunnelServer } from './runnel-server.ts';
import { metricOf, randomPrompt } from './server.ts';
import { ask } from './sse-client.ts';

/** Measures how long a prompt waits that the server before has answered, without and with a KV cache on the disk. */

export interface AfterRestart {
  /** In tokens. */
  readonly prompt: number;
  readonly seed: number;
}

/** Room for the prompt of an 8B model. All of it is written when the file is made. */
const FILE_BYTES = 2 ** 30;
const GENERATE = 4;
const OPEN_MS = 60_000;

export function afterRestart(runner: Runner, plan: AfterRestart): Subject {
  const measure = async (_setting: string, round: number): Promise<Figures> => {
    const prompt = randomPrompt(new Random(plan.seed + round), plan.prompt);
    const file = join(temporaryFolder().path, 'kv');
    const disk = ['--kv-disk', file, '--kv-disk-bytes', String(FILE_BYTES)];
    return {
      knownPrompt: await secondWait(runner, prompt),
      keptPrompt: await secondWait({ ...runner, flags: [...runner.flags, ...disk] }, prompt, true),
    };
  };
  return { engine: runner.name, settings: [''], measure };
}

/** Seconds to the first token of the prompt in the second of two servers. */
async function secondWait(runner: Runner, prompt: readonly number[], isKept = false): Promise<number> {
  const wait = async (hasBlocks: boolean): Promise<number> => {
    const server = await RunnelServer.start(runner);
    try {
      await firstTokenAt(server);
      if (hasBlocks) await until(OPEN_MS, 'The blocks of the file', async () => (await numKept(server)) > 0);
      const question = { prompt, generate: GENERATE, temperature: 0, topK: 0, seed: 1 };
      const sentMs = performance.now();
      let firstMs: number | undefined;
      await ask(server.url, server.completion(question), (atMs) => {
        firstMs ??= atMs;
      });
      if (firstMs === undefined) throw new Error('an answer had no token');
      return (firstMs - sentMs) / 1000;
    } finally {
      await server.stop();
    }
  };
  await wait(false);
  return wait(isKept);
}

async function numKept({ url }: RunnelServer): Promise<number> {
  return metricOf(await (await fetch(`${url}/metrics`)).text(), 'runnel_kv_disk_blocks');
}
