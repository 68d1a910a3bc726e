import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { CUDA_RUNNER_EMULATED, pacedRunner, TINY_MODEL } from '../fixtures/default-model.ts';
import { completionOf, type DurableStream, jobOf, told } from '../fixtures/durable-streams.ts';
import { Gateway, gatewaySuite } from '../fixtures/gateway.ts';
import { follow } from '../fixtures/returning-client.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { until } from '../fixtures/within.ts';

/** Jobs that are parked on one device and resumed on another one, by another gateway over the same journal. */

const PATIENCE_MS = 120_000;
/** Of each step on the CPU, so that a parking finds its answer unfinished. */
const STEP_MS = 20;
const NUM_TOKENS = 90;
/** On each device but the last one. */
const NUM_EVENTS = 12;

const test = gatewaySuite('parked on devices');

const DEVICES = {
  cpu: ['--backend', 'cpu', '--threads', '1', '--runner', pacedRunner(STEP_MS)],
  cuda: ['--backend', 'cuda', '--cuda-runner', CUDA_RUNNER_EMULATED],
} as const;

const LENGTH = { max_tokens: NUM_TOKENS, min_tokens: NUM_TOKENS };
/** By the ids of jobs, if their API lets clients choose them. */
const STREAMS: readonly ((gateway: () => Gateway, jobId: string) => DurableStream)[] = [
  (gateway, jobId) =>
    jobOf(gateway, jobId, {
      ...{ prompt: 'Once upon a time', seed: 1, temperature: 0.9, token_ids: true },
      ...LENGTH,
    }),
  (gateway, jobId) =>
    jobOf(gateway, jobId, {
      ...{ prompt: 'Dear diary', seed: 2, top_k: 40, min_p: 0.02, repetition_penalty: 1.2 },
      ...LENGTH,
    }),
  (gateway, jobId) =>
    jobOf(gateway, jobId, {
      ...{ prompt: 'Once', seed: 3, stop: ['e', 'th'] },
      ...{ max_tokens: NUM_TOKENS, min_tokens: NUM_TOKENS - 10 },
    }),
  (gateway) =>
    completionOf(gateway, {
      ...{ prompt: 'Über süße Äpfel', seed: 4, temperature: 0.8, logprobs: 2 },
      ...{ guided_regex: '[a-z ]{60,80}', max_tokens: NUM_TOKENS },
    }),
];

const journal = join(temporaryFolder().path, 'journal');
const start = (device: keyof typeof DEVICES, port = '0'): Promise<Gateway> =>
  Gateway.startOn(TINY_MODEL, [...['--port', port, '--journal-dir', journal], ...DEVICES[device]]);

let expected: readonly string[] = [];

test('undisturbed on the CPU, the answers are these', async () => {
  const gateway = await (await start('cpu')).ready();
  const all = STREAMS.map((streamOf, number) => follow(streamOf(() => gateway, `expected-${number}`)));
  expected = (await Promise.all(all)).map(({ events }) => told(events));
});

for (const devices of [
  ['cuda', 'cpu', 'cuda'],
  ['cpu', 'cuda', 'cpu'],
] as const)
  test(`jobs that are parked twice on their way over ${devices.join(', ')} have the same bytes`, async () => {
    const [first, ...others] = devices;
    let gateway = await (await start(first)).ready();
    const { port } = new URL(gateway.url);
    const change = async (how: 'park' | 'resume', jobId: string): Promise<void> => {
      const response = await fetch(`${gateway.url}/jobs/${jobId}/${how}`, { method: 'POST' });
      assert.is(response.status, 200, `${how} ${jobId}: ${await response.text()}`);
    };
    const streams = STREAMS.map((streamOf, number) => {
      const stream = streamOf(() => gateway, `${first}-${number}`);
      const followed = { stream, numEvents: 0 };
      const events = follow(stream, () => {
        followed.numEvents += 1;
      });
      events.catch(() => {});
      return Object.assign(followed, { events });
    });
    for (const device of others) {
      const wanted = streams.map(({ numEvents }) => numEvents + NUM_EVENTS);
      await Promise.all(
        streams.map(async (each, number) => {
          const hasMore = (): boolean => each.numEvents >= (wanted[number] ?? 0);
          await until(PATIENCE_MS, `The events of stream ${number}`, hasMore);
          await change('park', each.stream.jobId());
        }),
      );
      await gateway.stop();
      gateway = await (await start(device, port)).ready();
      assert.is((await gateway.health()).parked_jobs, STREAMS.length);
      for (const { stream } of streams) await change('resume', stream.jobId());
    }
    for (const [number, { events }] of streams.entries())
      assert.is(told((await events).events), expected[number], `stream ${number}`);
  });

test.run();
