import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { processorMsOf } from '../../gateway/system/kernel.ts';
import { CPU_RUNNER, DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { until, within } from '../fixtures/within.ts';

/** Cancels a prompt that the default model computes in one step, which takes seconds. */

const NUM_PROMPT_TOKENS = 1000;
const TIMEOUT_MS = 120_000;

interface Event {
  readonly ready?: object;
  readonly step?: { readonly step: number };
  readonly request_error?: { readonly request_id: number; readonly code: string };
}

function send(runner: ChildProcess, ...commands: object[]): void {
  for (const command of commands) runner.stdin?.write(`${JSON.stringify(command)}\n`);
}

/** The ids count from `first`, so that no two prompts begin alike. */
const generate = (request_id: number, first: number) => ({
  generate: {
    request_id,
    token_ids: Array.from({ length: NUM_PROMPT_TOKENS }, (_, i) => first + i),
    max_tokens: 1,
  },
});

const test = suite('cancel');

test('a cancel in the middle of a long prompt is answered long before the prompt would be computed', async () => {
  const runner = spawn(
    CPU_RUNNER,
    ['serve', '--model', DEFAULT_MODEL, '--json-frames', '--max-num-batched-tokens', '2048'],
    { stdio: ['pipe', 'pipe', 'ignore'] },
  );
  const exit = once(runner, 'exit');
  const lines = createInterface(runner.stdout)[Symbol.asyncIterator]();
  const nextWith = async (member: keyof Event): Promise<Event> => {
    for (;;) {
      const { value, done } = await within(TIMEOUT_MS, `A ${member}`, lines.next());
      assert.not(done, `the runner ended before a ${member}`);
      const event = JSON.parse(value as string) as Event;
      if (member in event) return event;
      assert.not('step' in event, `a step came before a ${member}`);
    }
  };
  // Processor time, which a busy machine does not change.
  const usedMs = (): number => processorMsOf(runner.pid ?? 0) ?? 0;
  try {
    await nextWith('ready');
    const beginMs = usedMs();
    send(runner, generate(1, 1000));
    assert.is((await nextWith('step')).step?.step, 1);
    const wholeMs = usedMs() - beginMs;

    const secondMs = usedMs();
    send(runner, generate(2, 2500));
    await until(TIMEOUT_MS, 'A quarter of the work', () => usedMs() - secondMs >= wholeMs / 4);
    send(runner, { cancel: { request_id: 2 } });
    assert.equal((await nextWith('request_error')).request_error, {
      request_id: 2,
      code: 'ERROR_CODE_CANCELLED',
      message: 'The request was cancelled.',
    });
    // The step itself also ends at once, since nothing is left of it.
    assert.is((await nextWith('step')).step?.step, 2);
    const workMs = usedMs() - secondMs;
    assert.ok(workMs < (3 / 4) * wholeMs, `${workMs} ms of work; the whole prompt takes ${wholeMs} ms`);
    runner.stdin.end();
    assert.is((await within(TIMEOUT_MS, 'The exit', exit))[0], 0);
  } finally {
    runner.kill('SIGKILL');
  }
});

test.run();
