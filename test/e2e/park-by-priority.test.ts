import { join } from 'node:path';
import * as assert from 'uvu/assert';
import { pacedRunner, TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway, gatewaySuite } from '../fixtures/gateway.ts';
import { type NativeAnswer, readNativeAnswer } from '../fixtures/native-stream.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { until } from '../fixtures/within.ts';

/** Requests that a real runner has no place, or no memory, for are let in by `--park-by-priority on`. */

const PATIENCE_MS = 120_000;
/** Of each step, so that an urgent request finds the others unfinished. */
const STEP_MS = 40;
const LONG = 160;
/** The urgent request comes when both have so many tokens. */
const BEGUN = 60;
const SHORT = 24;

const test = gatewaySuite('park by priority');

const start = async (...flags: string[]): Promise<Gateway> => {
  const journal = join(temporaryFolder().path, 'journal');
  const gateway = await Gateway.start(TINY_MODEL, [
    ...['--threads', '1', '--runner', pacedRunner(STEP_MS), '--journal-dir', journal],
    ...['--park-by-priority', 'on', '--speculation', 'off', ...flags],
  ]);
  return gateway.ready();
};

interface Following {
  readonly answer: Promise<NativeAnswer>;
  numTokens: number;
  isOver: boolean;
}

let numAsked = 0;

function ask(gateway: Gateway, maxTokens: number, fields: object): Following {
  const following: Following = {
    answer: gateway
      .post('/execute', {
        job_id: `job-${numAsked++}`,
        prompt: 'Tell me more. ',
        seed: 7,
        max_tokens: maxTokens,
        min_tokens: maxTokens,
        ...fields,
      })
      .then((response) =>
        readNativeAnswer(response, (_, index) => {
          following.numTokens = index + 1;
        }),
      )
      .finally(() => {
        following.isOver = true;
      }),
    numTokens: 0,
    isOver: false,
  };
  return following;
}

async function numParked(gateway: Gateway): Promise<number> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  return Number(/^runnel_requests_parked_total\{[^}]*\} (\d+)$/m.exec(text)?.[1]);
}

const WHERE = {
  'no place in a step': ['--max-num-seqs', '2'],
  // Two long answers fill it.
  'no block of the KV cache': ['--num-kvcache-blocks', '24', '--block-size', '8'],
};

/** One of the less urgent streams is durable, and one is not. */
const LOW = [
  { priority: 'low', seed: 1, durable: true },
  { priority: 'low', seed: 2 },
];

for (const [what, flags] of Object.entries(WHERE))
  test(`an urgent request that finds ${what} is answered first, and the streams that it has parked go on to the same answers`, async () => {
    const gateway = await start(...flags);
    const textsOf = (streams: readonly Following[]): Promise<string[]> =>
      Promise.all(streams.map(async ({ answer }) => (await answer).text));
    const expected = await textsOf(LOW.map((low) => ask(gateway, LONG, low)));
    assert.is(await numParked(gateway), 0);

    const streams = LOW.map((low) => ask(gateway, LONG, low));
    await until(PATIENCE_MS, 'Tokens of both', () => streams.every(({ numTokens }) => numTokens > BEGUN));
    await ask(gateway, SHORT, { priority: 'high', prompt: 'Urgent. '.repeat(6) }).answer;
    assert.ok(
      streams.some(({ isOver }) => !isOver),
      'a less urgent one goes on behind it',
    );
    assert.ok((await numParked(gateway)) > 0);
    await gateway.logged(
      /"event":"request_parked",[^\n]*"priority":100,"for_priority":-100,"num_emitted":\d/,
    );
    assert.equal(await textsOf(streams), expected);
  });

test.run();
