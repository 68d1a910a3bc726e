/** What `make soak` looks at for half an hour, in short: requests leave nothing behind. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { Random } from '../fixtures/random.ts';
import { TINY_ID } from '../fixtures/served-tiny.ts';
import { variedRequests } from '../fixtures/varied-requests.ts';
import { Load } from './load.ts';
import { LogEvents } from './log-events.ts';
import { type Sample, takeSample } from './samples.ts';
import { PROBE } from './subject.ts';

const NUM_CLIENTS = 4;
const NUM_TOKENS = 32;
/** Of the first requests, which compile the engine's code, fill pools and touch the cache; and of those that are measured. */
const NUM_WARM_UP = 150;
const NUM_MEASURED = 150;
const CACHE_BYTES = 4 * 2 ** 20;
/** A request that leaves ten kilobytes behind is found. */
const MAX_MORE_BYTES = NUM_MEASURED * 10_000;

const test = suite('baseline');

test('a hundred requests, some of them left early, give back memory, blocks, descriptors and timers', async () => {
  const flags = ['--port', '0', '--backend', 'cpu', '--kv-cache-bytes', String(CACHE_BYTES)];
  const gateway = await Gateway.startOn(TINY_MODEL, flags, { env: PROBE });
  try {
    const log = new LogEvents(await gateway.ready());
    const random = new Random();
    const load = new Load(gateway, variedRequests(TINY_ID, NUM_TOKENS), random);
    await load.learn();
    const sampleAfter = async (numRequests: number): Promise<Sample> => {
      const isOver = () => load.counts.numRequests >= numRequests;
      await Promise.all(Array.from({ length: NUM_CLIENTS }, () => load.run(isOver)));
      await gateway.healthWhere(
        ({ runner: { open_requests: open, kv_blocks: all, kv_blocks_free: free } }) =>
          open === 0 && all === free,
        'An idle runner with all its blocks',
      );
      return takeSample(gateway, log, Date.now());
    };
    const before = await sampleAfter(NUM_WARM_UP);
    const after = await sampleAfter(NUM_WARM_UP + NUM_MEASURED);
    const { counts } = load;
    const what = `seed ${random.seed}: ${JSON.stringify({ before, after, counts })}`;
    assert.equal([counts.failures, counts.numMismatches], [[], 0], what);
    const heapOf = ({ gatewayHeapBytes: heap, gatewayCodeBytes: code }: Sample) => heap - code;
    assert.ok(heapOf(after) - heapOf(before) < MAX_MORE_BYTES, `heap: ${what}`);
    assert.ok(
      Number(after.runnerMemoryBytes) - Number(before.runnerMemoryBytes) < MAX_MORE_BYTES,
      `runner: ${what}`,
    );
    assert.ok(after.gatewayDescriptors <= before.gatewayDescriptors + 2, `descriptors: ${what}`);
    assert.ok(after.gatewayTimers <= before.gatewayTimers, `timers: ${what}`);
    assert.equal([after.openRequests, after.usedBlocks, after.zombies], [0, 0, []], what);
  } finally {
    await gateway.stop();
  }
});

test.run();
