import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { levelOf } from '../../../../gateway/cli/bench/level.ts';
import type { Sample } from '../../../../gateway/cli/bench/load.ts';
import { UnavailableError } from '../../../../gateway/errors/thrown.ts';

const test = suite('bench level');

function sample(startedMs: number, arrivedMs: number[], changes: Partial<Sample> = {}): Sample {
  const endedMs = arrivedMs.at(-1) ?? startedMs;
  return {
    startedMs,
    endedMs,
    arrivedMs,
    numTokens: arrivedMs.length,
    numPromptTokens: 10,
    failure: undefined,
    ...changes,
  };
}

test('times, rates and goodput are those of the samples', () => {
  const samples = [
    sample(0, [100, 110, 130]),
    // Its first token is late.
    sample(500, [1500, 1510]),
    // Slow between tokens.
    sample(1000, [1050, 2000]),
    // Several tokens in one text: 90 ms for 10 of them are 10 ms each.
    sample(0, [100, 190], { numTokens: 10 }),
    sample(1500, [1510], { failure: new UnavailableError('It broke.') }),
  ];
  const level = levelOf({ concurrency: 2 }, samples, { ttftMs: 200, itlMs: 20 });
  assert.is(level.seconds, 2);
  assert.is(level.requests, 5);
  assert.is(level.failed, 1);
  assert.is(level.failure, 'It broke.');
  assert.is(level.output_tokens, 3 + 2 + 2 + 10);
  assert.is(level.output_tokens_per_second, 8.5);
  assert.is(level.prompt_tokens, 40);
  assert.is(level.requests_per_second, 2);
  assert.is(level.goodput_per_second, 1, 'the first and the fourth');
  assert.is(level.ttft_ms?.p50, 100);
  assert.is(level.ttft_ms?.max, 1000);
  assert.is(level.itl_ms?.max, 950);
  assert.is(level.itl_ms?.p50, 20, 'of 10, 10, 20, 90 and 950');
  assert.is(level.whole_ms?.max, 1010);
  const all = levelOf({ rate: 1 }, samples, { ttftMs: undefined, itlMs: undefined });
  assert.is(all.goodput_per_second, 2);
});

test('a load that answered nothing has no times', () => {
  const failure = new UnavailableError('No.');
  const { ttft_ms, itl_ms, whole_ms, failed } = levelOf(
    { concurrency: 1 },
    [sample(0, [], { failure, endedMs: 5 })],
    { ttftMs: undefined, itlMs: undefined },
  );
  assert.equal([ttft_ms, itl_ms, whole_ms, failed], [null, null, null, 1]);
});

test.run();
