import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { checkConfig, HAPROXY, HAPROXY_CONFIG, HaProxy } from '../fixtures/haproxy.ts';
import { SseParser } from '../fixtures/sse.ts';
import { until, within } from '../fixtures/within.ts';

/** Three gateways behind HAProxy, with the configuration of deploy/haproxy: runners die, a gateway dies, a gateway drains. */

const test = suite('haproxy');
if (HAPROXY === undefined) console.log('SKIPPED: HAProxy is not installed: apt-get install haproxy.');
const proxyTest = HAPROXY !== undefined ? test : test.skip;

const NAMES = ['a', 'b', 'c'] as const;
type Name = (typeof NAMES)[number];
const PATIENCE_MS = 120_000;
const NUM_STREAMS = 6;
const NUM_TOKENS = 80;

const gateways = new Map<Name, Gateway>();
let proxy: HaProxy;

test.before(async () => {
  if (HAPROXY === undefined) return;
  for (const name of NAMES) {
    const gateway = await Gateway.start(DEFAULT_MODEL, ['--threads', '1']);
    gateways.set(name, gateway);
    await gateway.ready();
  }
  proxy = await HaProxy.start([...gateways.values()].map(({ url }) => url));
});
test.after(() => {
  proxy?.kill();
  for (const { process } of gateways.values()) process.kill('SIGKILL');
});

const bodyOf = (user: string, maxTokens: number) => ({
  model: 'smollm2',
  user,
  messages: [{ role: 'user', content: `Tell me a story about ${user}.` }],
  temperature: 0,
  max_tokens: maxTokens,
});

function servedBy(response: Response): Name {
  return response.headers.get('x-runnel-gateway') as Name;
}

async function textOf(gateway: Gateway | HaProxy, user: string): Promise<string> {
  const response = await gateway.post('/v1/chat/completions', bodyOf(user, NUM_TOKENS));
  assert.is(response.status, 200);
  return ((await response.json()) as { choices: [{ message: { content: string } }] }).choices[0].message
    .content;
}

/** A streamed answer, as far as it has come; `end` is [DONE], a finish without it, or the error of the connection. */
class Stream {
  readonly user: string;
  text = '';
  isDone = false;
  failure: Error | undefined;
  name: Name | undefined;
  readonly ended: Promise<void>;

  constructor(user: string) {
    this.user = user;
    this.ended = this.#read();
  }

  async #read(): Promise<void> {
    try {
      const body = { ...bodyOf(this.user, NUM_TOKENS), stream: true };
      const response = await proxy.post('/v1/chat/completions', body);
      assert.is(response.status, 200);
      this.name = servedBy(response);
      const parser = new SseParser();
      for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>)
        for (const { data } of parser.push(chunk)) {
          if (data === '[DONE]') this.isDone = true;
          else this.text += JSON.parse(data).choices[0]?.delta.content ?? '';
        }
    } catch (error) {
      this.failure = error as Error;
    }
  }
}

proxyTest('HAProxy takes the configuration and has nothing to say about it', () => {
  assert.equal(checkConfig(HAPROXY_CONFIG), { status: 0, said: 'Configuration file is valid\n' });
  assert.not.match(readFileSync(HAPROXY_CONFIG, 'utf8'), /^(?!\s*#).*on-marked-down/m);
});

proxyTest(
  'one session goes to one gateway, and sessions to several; a job is cancelled where it runs',
  async () => {
    const ask = async (user: string, headers: Record<string, string> = {}) => {
      const response = await proxy.post('/v1/chat/completions', bodyOf(user, 1), headers);
      assert.is(response.status, 200);
      await response.arrayBuffer();
      return servedBy(response);
    };
    const users = Array.from({ length: 8 }, (_, i) => `person ${i}`);
    const first = new Map<string, Name>();
    for (const user of users) first.set(user, await ask(user));
    assert.ok(new Set(first.values()).size > 1, 'sessions are spread');
    for (const user of users) assert.is(await ask(user), first.get(user), user);
    const bySession = new Set<Name>();
    for (const user of users) bySession.add(await ask(user, { 'x-session-id': 'one' }));
    assert.is(bySession.size, 1, 'the header goes before the body');

    for (let job = 0; job < 3; job++) {
      const request = { job_id: `job-${job}`, prompt: 'Once', max_tokens: 2000, temperature: 0 };
      const running = await proxy.post('/execute', request);
      assert.is((await proxy.post('/cancel', { job_id: request.job_id })).status, 202);
      assert.match(await within(PATIENCE_MS, 'The end of the job', running.text()), /"CANCELLED"/);
    }
  },
);

proxyTest('paths of operators are not there', async () => {
  for (const path of ['/metrics', '/runner/crashes'])
    assert.is((await fetch(proxy.url + path)).status, 404, path);
  assert.is((await proxy.post('/runner/restart', {})).status, 404);
});

proxyTest('a stream through HAProxy survives the kill of a runner', async () => {
  const stream = new Stream('a lighthouse');
  await until(PATIENCE_MS, 'Text', () => stream.text !== '');
  const gateway = gateways.get(stream.name as Name) as Gateway;
  process.kill((await gateway.health()).runner.pid ?? 0, 'SIGKILL');
  await within(PATIENCE_MS, 'The end of the stream', stream.ended);
  assert.equal([stream.failure, stream.isDone], [undefined, true]);
  assert.is((await gateway.health()).runner.restarts, 1);
  assert.is(stream.text, await textOf(proxy, 'a lighthouse'));
});

proxyTest(
  'the kill of a gateway ends its own streams with an error, and nothing else; new requests go elsewhere',
  async () => {
    const [one] = [...gateways.values()];
    await until(PATIENCE_MS, 'All gateways to be ready', async () => {
      const ready = await Promise.all([...gateways.values()].map(({ url }) => fetch(`${url}/ready`)));
      return ready.every(({ ok }) => ok);
    });
    const streams = Array.from({ length: NUM_STREAMS }, (_, i) => new Stream(`sailor ${i}`));
    await until(PATIENCE_MS, 'Text of each stream', () => streams.every(({ text }) => text !== ''));
    const killed = streams[0]?.name as Name;
    const { process: victim } = gateways.get(killed) as Gateway;
    const exited = once(victim, 'exit');
    victim.kill('SIGKILL');
    // What is sent to it while it dies ends with 502: nobody knows what became of it.
    await exited;
    // At once: before a check has found out.
    const later = await Promise.all(
      Array.from({ length: NUM_STREAMS }, (_, i) =>
        proxy.post('/v1/chat/completions', bodyOf(`sailor ${i}`, 1)),
      ),
    );
    for (const response of later) {
      assert.is(response.status, 200, await response.text());
      assert.is.not(servedBy(response), killed);
    }
    await within(PATIENCE_MS, 'The ends of the streams', Promise.all(streams.map(({ ended }) => ended)));
    const lost = streams.filter(({ name }) => name === killed);
    assert.ok(lost.length > 0 && lost.length < NUM_STREAMS);
    const alive = (one === gateways.get(killed) ? [...gateways.values()][1] : one) as Gateway;
    for (const { user, name, text, isDone, failure } of streams) {
      const whole = await textOf(alive, user);
      if (name === killed) {
        assert.instance(failure, Error, `${user}: what was cut must not look whole`);
        assert.not.ok(isDone);
        assert.ok(whole.startsWith(text) && text.length < whole.length, user);
      } else assert.equal([failure, isDone, text], [undefined, true, whole], user);
    }
    console.log(`${lost.length} of ${NUM_STREAMS} streams ended with the gateway that was killed`);
    gateways.delete(killed);
  },
);

proxyTest(
  'a gateway that drains finishes its streams; new requests go elsewhere, and none fails',
  async () => {
    const stream = new Stream('an island');
    await until(PATIENCE_MS, 'Text', () => stream.text !== '');
    const name = stream.name as Name;
    const gateway = gateways.get(name) as Gateway;
    const ended = gateway.stop();
    for (let i = 0; i < 5; i++) {
      const response = await proxy.post('/v1/chat/completions', bodyOf('an island', 1));
      assert.is(response.status, 200, await response.text());
      assert.is.not(servedBy(response), name);
    }
    await within(PATIENCE_MS, 'The end of the stream', stream.ended);
    assert.equal([stream.failure, stream.isDone], [undefined, true]);
    assert.equal(await ended, { code: 0, signal: null });
    gateways.delete(name);
  },
);

test.run();
