import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from '../../fixtures/app.ts';

/** The stop strings of each API. /execute has limits of its own. */

const test = suite('stop strings');

const LONG = 1024;
/** The last of these ends the answer; the others are cut off by what differs at their end. */
const stops = Array.from({ length: 64 }, (_, i) => `${'é'.repeat(LONG - 2)}${i === 63 ? 'a' : 'b'}${i % 10}`);

const routes: readonly [
  path: string,
  base: object,
  stop: (stops: readonly string[]) => object,
  name: string,
][] = [
  ['/v1/completions', { prompt: 'Hi', max_tokens: 4000 }, (stop) => ({ stop }), 'stop'],
  ['/v1/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }, (stop) => ({ stop }), 'stop'],
  [
    '/v1/messages',
    { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4000 },
    (stop_sequences) => ({ stop_sequences }),
    'stop_sequences',
  ],
  ['/api/generate', { prompt: 'Hi', stream: false }, (stop) => ({ options: { stop } }), 'stop'],
];

test('64 stop strings of 1,024 characters end an answer on each route but /execute', async () => {
  for (const [path, base, stop] of routes) {
    const { runner, post } = testApp();
    const text = `So.${stops[63]}`;
    runner.current = { ...runner.current, info: { ...runner.current.info, maxModelLen: 8192 } } as never;
    runner.script = [[...Buffer.from(text)], 'wait'];
    const response = await post(path, { model: 'bytes', ...base, ...stop(stops) });
    const body = await response.text();
    assert.is(response.status, 200, body);
    assert.match(body, '"So."');
    assert.not.match(body, 'So.é');
  }
});

test('too many, too long and empty stops are refused without their text', async () => {
  for (const [path, base, stop, name] of routes)
    for (const [sent, sentence] of [
      [[...stops, 'x'], `${name} must have at most 64 sequences (got 65)`],
      [['ok', 'é'.repeat(1025)], 'stop sequence 1 must be at most 1024 characters (got 1025)'],
      [[''], 'stop sequence 0 must not be empty'],
    ] as const) {
      const { runner, post } = testApp();
      const response = await post(path, { model: 'bytes', ...base, ...stop(sent) });
      const body = await response.text();
      assert.is(response.status, 400, `${path}: ${body}`);
      assert.match(body, sentence);
      assert.not.match(body, 'éé');
      assert.is(runner.requests.length, 0);
    }
});

test.run();
