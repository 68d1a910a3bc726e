import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { bench } from '../../../../gateway/cli/bench/bench.ts';
import { curveLines } from '../../../../gateway/cli/bench/table.ts';
import { OpenAiServer, writeAnswer } from '../../../fixtures/openai-server.ts';
import { runCommand as run } from '../../../fixtures/run-command.ts';

const test = suite<{ fake: OpenAiServer }>('bench');

test.before.each(async (context) => {
  context.fake = await OpenAiServer.start();
});
test.after.each(async ({ fake }) => fake.stop());

test('a table has a row for each load, with what failed, and curves', async ({ fake }) => {
  let numAsked = 0;
  fake.answer = (response) => {
    if (numAsked++ !== 3) return writeAnswer(response, ['a', 'b', 'c']);
    response.statusCode = 503;
    response.end('{"error":{"message":"Busy."}}');
  };
  const args = ['--url', fake.url, '--requests', '6', '--seed', '5', '--concurrency'];
  const { exitCode, stdout, stderr } = await run(bench.run, ...args, '1,2');
  assert.is(exitCode, 0, stderr);
  const lines = stdout.split('\n');
  assert.is(lines[0], `scripted at ${fake.url}, seed 5`);
  assert.match(
    lines[1] ?? '',
    /clients {2}requests {2}failed .*first ms p50 .*between ms p50 .*whole ms p50/,
  );
  assert.match(lines[2] ?? '', /^ +1 +6 +1 /);
  assert.match(lines[3] ?? '', /^ +2 +6 +0 /);
  assert.is(lines[4], `! The server at ${fake.url} answered 503: Busy.`);
  assert.match(stdout, /time to first text, ms {2}\(\* p50 {2}o p99\)/);
  assert.is(fake.bodies.length, 13, 'one goes ahead');
});

test('--json has the levels, and the same seed the same prompts', async ({ fake }) => {
  const args = ['--url', fake.url, '--requests', '3', '--seed', '5', '--rate', '500', '--json'];
  const { exitCode, stdout } = await run(bench.run, ...args);
  assert.is(exitCode, 0);
  const { seed, model, levels } = JSON.parse(stdout);
  assert.is(seed, 5);
  assert.is(model, 'scripted');
  assert.equal(levels[0].load, { rate: 500 });
  assert.is(levels[0].output_tokens, 6);
  assert.is(levels[0].prompt_tokens, 15);
  await run(bench.run, ...args);
  const prompts = fake.bodies.map(({ messages }) => JSON.stringify(messages));
  assert.equal(prompts.slice(0, 4), prompts.slice(4));
  assert.is(new Set(prompts.slice(0, 4)).size, 4);
});

test('loads that make no sense and a server that refuses have their exit codes', async ({ fake }) => {
  const cases: [number, string[], RegExp][] = [
    [64, ['--rate', '1', '--concurrency', '2'], /--rate cannot be used together/],
    [64, ['--requests', '2', '--concurrency', '4'], /at least 4, the most clients/],
    [64, ['--concurrency', '0'], /--concurrency must be a whole number between 1 and 1024/],
    [64, ['--rate', 'fast'], /--rate must be a number/],
    [77, [], /answered 401/],
  ];
  fake.answer = (response) => {
    response.statusCode = 401;
    response.end();
  };
  for (const [expected, args, message] of cases) {
    const { exitCode, stderr } = await run(bench.run, '--url', fake.url, ...args);
    assert.is(exitCode, expected, stderr);
    assert.match(stderr, message);
  }
});

test('a curve goes from its least to its largest value', () => {
  const series = [{ mark: '*', name: 'p50', values: [0, 70, null] }];
  assert.equal(curveLines('ms', ['1', '2', '3'], series), [
    'ms  (* p50)',
    '70.0 |               *',
    '     |             ..',
    '     |            .',
    '     |          ..',
    '     |         .',
    '     |        .',
    '     |      ..',
    '   0 |     *',
    `     +${'-'.repeat(30)}`,
    '          1         2         3',
  ]);
});

test.run();
