import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { type NativeAnswer, readNativeAnswer } from '../fixtures/native-stream.ts';

/**
 * The promise itself: the runner is killed with SIGKILL while four streams are in the middle of their text, and each
 * of them ends as if nothing had happened, byte for byte. `make check` runs it with more kills.
 */

const KILLS = Number(process.env.RUNNEL_TEST_KILLS ?? 3);

const requests = [
  { prompt: 'The lighthouse keeper wrote in his journal every evening,', temperature: 0 },
  { prompt: 'A recipe for bread begins with', temperature: 0, repetition_penalty: 1.2 },
  { prompt: 'In the year 2190, the city of', temperature: 0.9, seed: '18446744073709551615' },
  { prompt: 'Dear diary, today I', temperature: 1.1, top_k: 40, top_p: 0.95, min_p: 0.02, seed: '7' },
];
const MAX_TOKENS = 96;

let gateway: Gateway;
const test = suite('kills');

test.before(async () => {
  gateway = await (await Gateway.start(DEFAULT_MODEL)).ready();
});
test.after(async () => {
  await gateway.stop();
});

/** Runs the four requests at once; `onText` sees each stream's text as it grows. */
function runAll(
  round: string,
  onText: (stream: number, text: string) => void = () => {},
): Promise<NativeAnswer[]> {
  return Promise.all(
    requests.map(async ({ seed, ...request }, stream) => {
      const body = JSON.stringify({ job_id: `${round}-${stream}`, max_tokens: MAX_TOKENS, ...request });
      const seeded = seed === undefined ? body : body.replace(/}$/, `,"seed":${seed}}`);
      return readNativeAnswer(await gateway.post('/execute', seeded), (text) => onText(stream, text));
    }),
  );
}

test(`${KILLS} kills change no byte of four streams`, async () => {
  const expected = await runAll('whole');
  for (const { text, last } of expected) {
    assert.is(last.event, 'end');
    assert.ok(text.length > 20, 'the texts are long enough to be killed in');
  }

  for (let kill = 0; kill < KILLS; kill++) {
    const before = await gateway.health();
    // Each round kills at another place: after this many characters of one of the streams.
    const victim = kill % requests.length;
    const length = expected[victim]?.text.length ?? 0;
    const after = 1 + Math.floor(((kill + 0.5) / KILLS) * length * 0.8);
    let killed = false;
    const answers = await runAll(`kill-${kill}`, (stream, text) => {
      if (killed || stream !== victim || text.length < after || text.length >= length) return;
      killed = true;
      process.kill(before.runner.pid ?? 0, 'SIGKILL');
    });
    assert.ok(killed, `round ${kill}: no stream was in the middle of its text`);
    for (const [stream, answer] of answers.entries()) {
      const where = `round ${kill}, stream ${stream}`;
      assert.is(answer.last.event, 'end', `${where}: ${answer.last.data.message}`);
      assert.is(answer.text, expected[stream]?.text, where);
      assert.equal(answer.indices, expected[stream]?.indices, where);
      assert.is(answer.last.data.tokens_out, expected[stream]?.last.data.tokens_out, where);
      assert.is(answer.last.data.stop_reason, expected[stream]?.last.data.stop_reason, where);
    }
    const now = await gateway.healthWhere(({ status }) => status === 'healthy', 'Health');
    assert.is.not(now.runner.pid, before.runner.pid, 'another process computes now');
    assert.is(now.runner.restarts, before.runner.restarts + 1);
    assert.is(now.runner.open_requests, 0);
  }
});

test.run();
