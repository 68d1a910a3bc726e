import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { checkConfig, HAPROXY, HAPROXY_CONFIG, HaProxy } from '../fixtures/haproxy.ts';
import { SseParser } from '../fixtures/sse.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { until, within } from '../fixtures/within.ts';

/** Three gateways behind HAProxy with the configuration of deploy/haproxy: runners die, a gateway dies, a gateway drains. */

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

const journals = temporaryFolder();

async function startGateway(name: Name, port: string): Promise<void> {
  const flags = ['--port', port, '--threads', '1', '--journal-dir', join(journals.path, name)];
  const gateway = await Gateway.startOn(DEFAULT_MODEL, flags);
  gateways.set(name, gateway);
  await gateway.ready();
}

test.before(async () => {
  if (HAPROXY === undefined) return;
  for (const name of NAMES) {
    await startGateway(name, '0');
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

interface StreamEvent {
  readonly id: string | undefined;
  readonly text: string;
}

/** The complete events of a native stream, with their ids and texts. */
function eventsIn(stream: string): StreamEvent[] {
  const blocks = stream.split('\n\n').slice(0, -1);
  return blocks.flatMap((block) => {
    const data = /^data: (.*)$/m.exec(block)?.[1];
    if (data === undefined) return [];
    const { t = '' } = /^event: token$/m.test(block) ? (JSON.parse(data) as { t?: string }) : {};
    return [{ id: /^id: (\d+)$/m.exec(block)?.[1], text: t }];
  });
}

function servedBy(response: Response): Name {
  return response.headers.get('x-runnel-gateway') as Name;
}

async function textOf(gateway: Gateway | HaProxy, user: string): Promise<string> {
  const response = await gateway.post('/v1/chat/completions', bodyOf(user, NUM_TOKENS));
  assert.is(response.status, 200);
  return ((await response.json()) as { choices: [{ message: { content: string } }] }).choices[0].message
    .content;
}

/**
 * A streamed answer as far as it has come. `ended` resolves when the response ends or the connection fails. isDone:
 * [DONE] has come.
 */
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

proxyTest('a session stays on a single gateway; a job is cancelled where it runs', async () => {
  const ask = async (user: string, headers: Record<string, string> = {}) => {
    // HAProxy passes over a gateway that has more open requests than the others.
    await proxy.idle();
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
});

proxyTest('what is kept is found where it is kept, by its id and by its Idempotency-Key', async () => {
  const places = new Set<Name>();
  for (let index = 0; index < 6; index++) {
    await proxy.idle();
    const chat = { ...bodyOf(`keeper ${index}`, 1), durable: true };
    const headers = { 'idempotency-key': `key-${index}` };
    const answers = [
      await proxy.post('/v1/chat/completions', chat, headers),
      await proxy.post('/v1/chat/completions', chat, headers),
    ];
    const [id, again] = answers.map((answer) => answer.headers.get('x-runnel-job-id'));
    assert.equal(
      answers.map(({ status }) => status),
      [200, 200],
    );
    assert.is(again, id);
    const response = { model: 'smollm2', input: `Keep ${index}.`, background: true, max_output_tokens: 1 };
    const { id: responseId } = (await (await proxy.post('/v1/responses', response)).json()) as { id: string };
    for (const path of [`/jobs/${id}`, `/jobs/${id}/events`, `/v1/responses/${responseId}`]) {
      const found = await fetch(proxy.url + path);
      assert.is(found.status, 200, `${path}: ${await found.text()}`);
      places.add(servedBy(found));
    }
  }
  assert.ok(places.size > 1, 'more than one gateway keeps something');
});

proxyTest('paths of operators are not there', async () => {
  for (const path of ['/metrics', '/metrics/load', '/runner/crashes'])
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

proxyTest('a durable stream survives the kill of a gateway and resumes after its last event', async () => {
  const job = { prompt: 'The sea was', max_tokens: NUM_TOKENS, temperature: 0, seed: 1 };
  const undisturbed = eventsIn(await (await proxy.post('/execute', { job_id: 'whole', ...job })).text());
  const response = await proxy.post('/execute', { job_id: 'durable', durable: true, ...job });
  assert.is(response.status, 200);
  const name = servedBy(response);
  const { process: victim, url } = gateways.get(name) as Gateway;
  const exited = once(victim, 'exit');
  let cut = '';
  try {
    const decoder = new TextDecoder();
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      cut += decoder.decode(chunk, { stream: true });
      if (eventsIn(cut).length > 10) victim.kill('SIGKILL');
    }
    assert.unreachable('what was cut must not look whole');
  } catch (error) {
    assert.not.instance(error, assert.Assertion);
  }
  await exited;
  const before = eventsIn(cut);
  assert.ok(before.length < undisturbed.length);
  const back = (): Promise<Response> =>
    fetch(`${proxy.url}/execute/durable/events`, {
      headers: { 'last-event-id': String(before.at(-1)?.id) },
    });
  assert.is((await back()).status, 503, 'the gateway that has it is not there');
  await startGateway(name, new URL(url).port);
  let rest = '';
  await until(PATIENCE_MS, 'The rest of the stream', async () => {
    const answer = await back();
    rest = await answer.text();
    assert.ok(answer.status === 200 || answer.status === 503, rest);
    return answer.ok;
  });
  const textOfAll = (events: readonly StreamEvent[]): string => events.map(({ text }) => text).join('');
  assert.is(textOfAll([...before, ...eventsIn(rest)]), textOfAll(undisturbed));
  assert.match(rest, /event: end\n/);
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
    await exited;
    // At once: before a health check has noticed.
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
