import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { pacedRunner, TINY_MODEL } from '../fixtures/default-model.ts';
import { type DurableStream, durableStream, told } from '../fixtures/durable-streams.ts';
import { Gateway, gatewaySuite } from '../fixtures/gateway.ts';
import { Random } from '../fixtures/random.ts';
import { follow } from '../fixtures/returning-client.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { until } from '../fixtures/within.ts';

/**
 * Durable streams of all routes are parked anywhere in their answers, and resumed. In between, and again while they go on, the
 * gateway or its runner is killed with SIGKILL. `make check` has a thousand parked streams.
 */

const PARKED = Number(process.env.RUNNEL_TEST_PARKED ?? 40);
const SEED = process.env.RUNNEL_TEST_SEED;
const NUM_STREAMS = 40;
const PATIENCE_MS = 120_000;
/** Of each step, so that a parking finds its answer unfinished. */
const STEP_MS = 4;
/** As a fraction of an answer. Later, some answers may have ended. */
const LAST_PARKING_AT = 0.7;

const test = gatewaySuite('parked', 'SIGKILL');

interface Following {
  readonly stream: DurableStream;
  readonly events: ReturnType<typeof follow>;
  numEvents: number;
}

test(`${PARKED} durable streams are parked and resumed between kills of runner and gateway, and no byte of them is changed`, async () => {
  const random = new Random(SEED === undefined ? undefined : Number(SEED));
  const journal = join(temporaryFolder().path, 'journal');
  const runner = pacedRunner(STEP_MS);
  const start = (port: string): Promise<Gateway> =>
    Gateway.startOn(TINY_MODEL, [
      ...['--port', port, '--threads', '1', '--runner', runner, '--journal-dir', journal],
      ...['--journal-max-jobs', '10000'],
    ]);
  let gateway = await (await start('0')).ready();
  const { port } = new URL(gateway.url);

  const kills = {
    gateway: async () => {
      await gateway.stop('SIGKILL');
      gateway = await (await start(port)).ready();
    },
    runner: async () => {
      await gateway.killRunner();
      await gateway.ready();
    },
  };
  /** The job as it is after the act, or undefined if it is not there or has ended. */
  const ask = async (act: string, { stream }: Following): Promise<{ status: string } | undefined> => {
    const response = await fetch(`${gateway.url}/jobs/${stream.jobId()}${act}`, { method: 'POST' });
    const body = (await response.json()) as { status: string };
    if (response.ok) return body;
    assert.ok([404, 409].includes(response.status), `${response.status} ${JSON.stringify(body)}`);
    return undefined;
  };
  const begin = (jobId: string, number: number): Following => {
    const stream = durableStream(() => gateway, number, jobId);
    const following: Following = {
      stream,
      events: follow(stream, () => {
        following.numEvents += 1;
      }),
      numEvents: 0,
    };
    following.events.catch(() => {});
    return following;
  };

  const expected = await Promise.all(
    Array.from({ length: NUM_STREAMS }, async (_, number) => {
      const { events } = await begin(`expected-${number}`, number).events;
      return { text: told(events), numEvents: events.length };
    }),
  );

  let numParked = 0;
  let numKills = 0;
  for (let round = 0; numParked < PARKED; round += 1) {
    const all = Array.from({ length: NUM_STREAMS }, (_, number) => begin(`${round}-${number}`, number));
    const parked: Following[] = [];
    await Promise.all(
      all.map(async (each, number) => {
        const place = random.below(Math.floor((expected[number]?.numEvents ?? 0) * LAST_PARKING_AT));
        await until(PATIENCE_MS, `Event ${place} (seed ${random.seed})`, () => each.numEvents >= place);
        await until(PATIENCE_MS, 'The id of a job', () => each.stream.jobId() !== '');
        const job = await ask('/park', each);
        if (job !== undefined) assert.is(job.status, 'parked');
        if (job !== undefined) parked.push(each);
      }),
    );
    const isFreed = async (): Promise<boolean> => {
      const { runner, parked_jobs } = await gateway.health();
      assert.is(parked_jobs, parked.length, `round ${round}, seed ${random.seed}`);
      return runner.open_requests === 0 && runner.kv_blocks === runner.kv_blocks_free;
    };
    await until(PATIENCE_MS, 'The memory of parked jobs to be free', isFreed);
    for (const kill of [kills.gateway, kills.runner].slice(
      round % 3 === 0 ? 1 : 0,
      round % 3 === 1 ? 1 : 2,
    )) {
      await kill();
      numKills += 1;
    }
    await until(PATIENCE_MS, 'The memory of parked jobs to be free', isFreed);
    const before = all.map(({ numEvents }) => numEvents);
    if (round % 2 === 0) for (const each of parked) assert.ok(await ask('/resume', each));
    else {
      const { resumed } = (await (await gateway.post('/runner/resume', {})).json()) as { resumed: number };
      assert.is(resumed, parked.length);
    }
    await until(PATIENCE_MS, `A stream that goes on (seed ${random.seed})`, () =>
      all.some(({ numEvents }, number) => numEvents > (before[number] ?? 0)),
    );
    await (round % 4 < 2 ? kills.runner : kills.gateway)();
    numKills += 1;
    for (const [number, { events }] of all.entries())
      assert.is(
        told((await events).events),
        expected[number]?.text,
        `round ${round}, ${number}, seed ${random.seed}`,
      );
    assert.is((await gateway.health()).parked_jobs, 0);
    numParked += parked.length;
  }
  console.log(
    `${numParked} parked streams, ${numKills} kills around them, 0 different (seed ${random.seed})`,
  );
});

test.run();
