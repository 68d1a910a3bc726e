import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { answerOutside } from '../../gateway/api/error-bodies.ts';
import { operatorGroup } from '../../gateway/api/operator/routes.ts';
import { GenerationError } from '../../gateway/runner/runner.ts';
import { close, createHttpServer, listen } from '../../gateway/server/http-server.ts';
import { randomIds } from '../../gateway/system/ids.ts';
import { createLog } from '../../gateway/telemetry/log.ts';
import { testApp } from '../fixtures/app.ts';
import { EOS_ID } from '../fixtures/byte-model.ts';
import { closeLater, closingSuite } from '../fixtures/closing-suite.ts';
import { codeBlocksOf } from '../fixtures/guides.ts';
import { HAPROXY, HAPROXY_CONFIG, HaProxy } from '../fixtures/haproxy.ts';
import { httpLimits } from '../fixtures/http-limits.ts';
import { answersTo, spellings } from '../fixtures/path-spellings.ts';
import type { ScriptedRunner } from '../fixtures/scripted-runner.ts';
import { PATIENCE_MS, until, within } from '../fixtures/within.ts';

/** Where HAProxy sends requests, with the configuration of deploy/haproxy over three gateways whose runners play a script. */

const test = closingSuite('routing by HAProxy');
if (HAPROXY === undefined) console.log('SKIPPED: HAProxy is not installed: apt-get install haproxy.');
const proxyTest = HAPROXY !== undefined ? test : test.skip;

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const NAMES = ['a', 'b', 'c'] as const;
type Name = (typeof NAMES)[number];

/** A gateway in this process, which can be killed and started again in the same place. */
class StandIn {
  readonly runner: ScriptedRunner;
  readonly #app = testApp();
  #server: Server | undefined;
  #port = 0;

  constructor() {
    this.runner = this.#app.runner;
    this.runner.script = [[65], [EOS_ID]];
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<this> {
    const server = createHttpServer(this.#app.app.fetch, httpLimits, {
      onError: (error) => answerOutside(error, createLog('silent'), randomIds),
    });
    const address = await listen(server, { host: '127.0.0.1', port: this.#port });
    this.#port = (address as { port: number }).port;
    this.#server = server;
    return this;
  }

  /** Closes all connections at once, as the end of a process does. */
  async kill(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined) return;
    server.closeAllConnections();
    await close(server);
  }
}

class Fleet {
  readonly gateways: Readonly<Record<Name, StandIn>>;
  readonly proxy: HaProxy;

  private constructor(gateways: Readonly<Record<Name, StandIn>>, proxy: HaProxy) {
    this.gateways = gateways;
    this.proxy = proxy;
  }

  static async start(): Promise<Fleet> {
    const [a, b, c] = [new StandIn(), new StandIn(), new StandIn()];
    const all = [a, b, c];
    for (const gateway of all) closeLater(() => gateway.kill());
    const proxy = await HaProxy.start(
      (await Promise.all(all.map((each) => each.start()))).map(({ url }) => url),
    );
    closeLater(() => proxy.kill());
    await proxy.up(NAMES.length);
    return new Fleet({ a, b, c }, proxy);
  }

  /** Where a request goes while no other is open: HAProxy passes over a gateway that has more than the others. */
  async placeOf([path, body, headers]: Request): Promise<Name> {
    await this.proxy.idle();
    const response = await this.proxy.post(path, body, headers);
    await response.arrayBuffer();
    return response.headers.get('x-runnel-gateway') as Name;
  }

  async placesOf(requests: readonly Request[]): Promise<Name[]> {
    const places: Name[] = [];
    for (const request of requests) places.push(await this.placeOf(request));
    return places;
  }
}

/** body: sent as it is if it is a string. */
type Request = readonly [path: string, body: unknown, headers?: Record<string, string>];

const SYSTEM = { role: 'system', content: 'You answer sailors. '.repeat(60) };
const question = (topic: number) => `What is the ${topic}th island called?`;
const LATER = [
  { role: 'assistant', content: 'I do not know.' },
  { role: 'user', content: 'Then ask somebody.' },
];
/** The messages of a conversation up to its first question, or to the next one. */
const talk = (topic: number, isLater: boolean) => [
  { role: 'user', content: question(topic) },
  ...(isLater ? LATER : []),
];
const inParts = (messages: ReturnType<typeof talk>, type: string) =>
  messages.map(({ role, content }) => ({ role, content: [{ type, text: content }] }));
const story = (topic: number, isLater: boolean) =>
  `${question(topic).padEnd(1024, '.')}${isLater ? ' The story goes on.' : ''}`;
const model = 'bytes';

const chat = (topic: number, isLater = false): Request => [
  '/v1/chat/completions',
  { model, messages: talk(topic, isLater), temperature: isLater ? 0 : 1 },
];

/** How the APIs put a conversation, or a text that is continued, into a body. */
const FORMS: Readonly<Record<string, (topic: number, isLater: boolean) => Request>> = {
  'OpenAI chat': chat,
  'OpenAI chat behind a long system prompt': (topic, isLater) => [
    '/v1/chat/completions',
    { model, messages: [SYSTEM, ...talk(topic, isLater)] },
  ],
  'OpenAI chat in parts': (topic, isLater) => [
    '/v1/chat/completions',
    { model, messages: inParts([SYSTEM, ...talk(topic, isLater)], 'text') },
  ],
  'OpenAI response': (topic, isLater) => [
    '/v1/responses',
    { model, input: inParts([{ ...SYSTEM, role: 'developer' }, ...talk(topic, isLater)], 'input_text') },
  ],
  'OpenAI response of a text': (topic, isLater) => ['/v1/responses', { model, input: story(topic, isLater) }],
  'OpenAI completion': (topic, isLater) => ['/v1/completions', { model, prompt: story(topic, isLater) }],
  'Anthropic message': (topic, isLater) => [
    '/v1/messages',
    { model, max_tokens: 9, system: SYSTEM.content, messages: talk(topic, isLater) },
  ],
  'Ollama chat': (topic, isLater) => ['/api/chat', { model, messages: [SYSTEM, ...talk(topic, isLater)] }],
  'Ollama text': (topic, isLater) => ['/api/generate', { model, prompt: story(topic, isLater) }],
  'native API': (topic, isLater) => [
    '/execute',
    { job_id: `${topic} ${isLater}`, prompt: story(topic, isLater) },
  ],
  'body above the buffer of HAProxy': (topic, isLater) => [
    '/v1/chat/completions',
    { model, messages: [...talk(topic, isLater), { role: 'user', content: 'x'.repeat(200_000) }] },
  ],
  'form that HAProxy cannot read': (topic, isLater) => [
    '/v1/chat/completions',
    `{"model": "bytes", "messages": [{"role": "user", "content": "${`\\u53f0${topic}`.repeat(80)}${isLater ? ' more' : ''}"}]}`,
  ],
};
const TOPICS = Array.from({ length: 8 }, (_, topic) => topic);

for (const [name, requestOf] of Object.entries(FORMS))
  proxyTest(`requests that begin alike go to one gateway, others to any: ${name}`, async () => {
    const fleet = await Fleet.start();
    const first = await fleet.placesOf(TOPICS.map((topic) => requestOf(topic, false)));
    assert.ok(new Set(first).size > 1, `all conversations are at ${first[0]}`);
    assert.equal(await fleet.placesOf(TOPICS.map((topic) => requestOf(topic, true))), first);
  });

proxyTest('what a client names goes before its conversation: header, cache key, user', async () => {
  const fleet = await Fleet.start();
  /** The places of conversations that differ in all but what `named` gives each. */
  const placesOf = (named: (topic: number) => object, headers: Record<string, string> = {}) =>
    fleet.placesOf(
      TOPICS.map((topic) => {
        const [path, body] = chat(topic);
        return [path, { ...(body as object), ...named(topic) }, headers];
      }),
    );
  const users = await placesOf((topic) => ({ user: `${topic}` }));
  assert.ok(new Set(users).size > 1);
  const same = [
    await placesOf(() => ({ user: '5' })),
    await placesOf((topic) => ({ user: `${topic}`, prompt_cache_key: '5' })),
    await placesOf((topic) => ({ prompt_cache_key: `${topic}` }), { 'x-session-id': '5' }),
  ];
  for (const places of same) assert.equal(new Set(places), new Set([users[5]]));
});

proxyTest(
  'a killed gateway’s conversations go to the others at once and come back to it, and no other conversation moves',
  async () => {
    const fleet = await Fleet.start();
    const requests = Array.from({ length: 30 }, (_, topic) => chat(topic));
    const before = await fleet.placesOf(requests);
    const victim = before[0] as Name;
    await fleet.gateways[victim].kill();
    // Before a health check has noticed, and after it.
    for (const numUp of [undefined, NAMES.length - 1]) {
      if (numUp !== undefined) await fleet.proxy.up(numUp);
      const during = await fleet.placesOf(requests);
      const heirs = during.filter((_, index) => before[index] === victim);
      assert.is(new Set(heirs).size, 2, 'both others take a part');
      assert.not(during.includes(victim));
      assert.equal(
        during.filter((_, index) => before[index] !== victim),
        before.filter((place) => place !== victim),
      );
    }
    await fleet.gateways[victim].start();
    await fleet.proxy.up(NAMES.length);
    assert.equal(await fleet.placesOf(requests), before);
  },
);

proxyTest('an answer that has not begun when its gateway is killed comes from another gateway', async () => {
  const fleet = await Fleet.start();
  const all = Object.values(fleet.gateways);
  for (const { runner } of all) runner.script = ['wait'];
  const [path, body] = chat(0);
  const answer = fleet.proxy.post(path, body);
  const holder = () => all.find(({ runner }) => runner.numAtWait > 0);
  await until(PATIENCE_MS, 'The request to arrive', () => holder() !== undefined);
  for (const { runner } of all) runner.script = [[66], [EOS_ID]];
  const victim = holder() as StandIn;
  await victim.kill();
  const response = await within(PATIENCE_MS, 'The answer', answer);
  assert.is(response.status, 200);
  assert.match(await response.text(), '"content":"B"');
  assert.is.not(fleet.gateways[response.headers.get('x-runnel-gateway') as Name], victim);
});

proxyTest(
  'an answer that has begun when its gateway is killed ends broken, and is not sent again',
  async () => {
    const fleet = await Fleet.start();
    const all = Object.values(fleet.gateways);
    for (const { runner } of all) runner.script = [[65], 'wait'];
    const [path, body] = chat(0);
    const response = await fleet.proxy.post(path, { ...(body as object), stream: true });
    await until(PATIENCE_MS, 'The wait', () => all.some(({ runner }) => runner.numAtWait > 0));
    await fleet.gateways[response.headers.get('x-runnel-gateway') as Name].kill();
    await response.text().then(
      () => assert.unreachable('what was cut must not look whole'),
      (error) => assert.not.instance(error, assert.Assertion),
    );
    assert.is(
      all.reduce((sum, { runner }) => sum + runner.requests.length, 0),
      1,
    );
  },
);

proxyTest(
  'a gateway that refuses with 503 loses its requests to the others, before a health check',
  async () => {
    const fleet = await Fleet.start();
    const request = chat(0);
    const place = await fleet.placeOf(request);
    fleet.gateways[place].runner.refuse = new GenerationError('NOT_READY', 'It stops.', { retriable: true });
    await fleet.proxy.idle();
    const response = await fleet.proxy.post(request[0], request[1]);
    assert.is(response.status, 200);
    assert.is.not(response.headers.get('x-runnel-gateway'), place);
  },
);

proxyTest('a request that kills each gateway that gets it fails after three tries at most', async () => {
  const fleet = await Fleet.start();
  let numTries = 0;
  for (const gateway of Object.values(fleet.gateways))
    gateway.runner.scriptOf = () => {
      numTries += 1;
      void gateway.kill();
      return ['wait'];
    };
  const [path, body] = chat(0);
  const { status } = await fleet.proxy.post(path, body);
  // 503 if the last gateway that HAProxy tried was dead already.
  assert.ok(status === 502 || status === 503, `${status}`);
  assert.ok(numTries >= 2 && numTries <= 3, `${numTries}`);
});

proxyTest('a request above the buffer of HAProxy is not sent again', async () => {
  const fleet = await Fleet.start();
  for (const { runner } of Object.values(fleet.gateways)) runner.script = ['wait'];
  const [path, body] = chat(0);
  const answer = fleet.proxy.post(path, JSON.stringify(body) + ' '.repeat(100_000));
  const all = Object.values(fleet.gateways);
  await until(PATIENCE_MS, 'The request to arrive', () => all.some(({ runner }) => runner.numAtWait > 0));
  await all.find(({ runner }) => runner.numAtWait > 0)?.kill();
  // 502, or a connection that breaks while the client still sends.
  assert.is(
    await answer.then(
      ({ status }) => status,
      () => 502,
    ),
    502,
  );
  assert.is(
    all.reduce((sum, { runner }) => sum + runner.requests.length, 0),
    1,
  );
});

test('fleets.md has the figures of the configuration', () => {
  const page = readFileSync(`${ROOT}docs/fleets.md`, 'utf8');
  const config = readFileSync(HAPROXY_CONFIG, 'utf8');
  const figures: Readonly<Record<string, (figure: number) => string>> = {
    'tune.bufsize': (bytes) => `${bytes / 1024} KiB`,
    maxconn: (connections) => `\`maxconn\` (${connections.toLocaleString('en')})`,
    'hash-balance-factor': (percent) => `${percent / 100} times the mean`,
    'timeout server': (seconds) => `silent for ${seconds} s`,
    'req.body,bytes': (bytes) => `the first ${bytes} bytes of the body`,
    "json_query('$.prompt'),bytes": (bytes) => `the first ${bytes.toLocaleString('en')} bytes of \`prompt\``,
  };
  for (const [setting, said] of Object.entries(figures)) {
    const rest = config.slice(config.indexOf(setting) + setting.length);
    assert.match(page, said(Number(/^(?: |\(0,)(\d+)/.exec(rest)?.[1])), setting);
  }
});

proxyTest('the commands of fleets.md for HAProxy do what they say', async () => {
  const [check = '', drain = '', ...more] = codeBlocksOf('docs/fleets.md', 'sh').filter((block) =>
    block.includes('haproxy'),
  );
  assert.equal(more, []);
  const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` };
  const { status, stdout } = spawnSync('bash', ['-euc', check], { cwd: ROOT, env, encoding: 'utf8' });
  assert.equal([status, stdout], [0, 'Configuration file is valid\n']);
  const [, command = '', place] = /^echo "(.+ gateways\/(\w) .+)" \| socat stdio \S+\n$/.exec(drain) ?? [];
  const fleet = await Fleet.start();
  const requests = TOPICS.map((topic) => chat(topic));
  const before = await fleet.placesOf(requests);
  assert.ok(before.includes(place as Name));
  assert.is((await fleet.proxy.command(command)).trim(), '');
  const during = await fleet.placesOf(requests);
  assert.not(during.includes(place as Name));
  for (const [index, each] of before.entries()) if (each !== place) assert.is(during[index], each);
});

proxyTest('paths of operators are not there, however they are spelled', async () => {
  const { proxy } = await Fleet.start();
  const port = Number(new URL(proxy.url).port);
  for (const { method, path } of [...operatorGroup.operations, { method: 'get', path: '/metrics/load' }]) {
    const sent = [path, `http://localhost${path}`, ...spellings(path)];
    for (const [target, status] of await answersTo(port, method.toUpperCase(), sent))
      assert.ok([400, 404, 405].includes(status), `${method} ${target}: ${status}`);
  }
});

test.run();
