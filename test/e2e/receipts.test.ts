import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { objectsIn, receiptsIn } from '../../gateway/cli/verify/saved-answer.ts';
import { CUDA_RUNNER_EMULATED, TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway, gatewaySuite } from '../fixtures/gateway.ts';
import { withChatTemplate } from '../fixtures/gguf-template.ts';
import { type Ran, runnel } from '../fixtures/ran.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { thinkingTemplate } from '../fixtures/thinking-template.ts';

/** Answers with receipts, computed again by runners of their own when their gateway has ended. */

const test = gatewaySuite('receipts');
const folder = temporaryFolder();
/** It thinks in chats, and has tools. */
const MODEL = folder.write('model.gguf', withChatTemplate(readFileSync(TINY_MODEL), thinkingTemplate));
const QWEN3 = fileURLToPath(new URL('../golden/models/qwen3-f32.gguf', import.meta.url));

const EQUAL = 0;
const DIFFERS = 3;
const UNVERIFIABLE = 4;

type Body = Readonly<Record<string, unknown>>;

const hi = { role: 'user', content: 'Hi' };
const sampled = { temperature: 0.9, top_p: 0.95, seed: 11 };

/** By name: a route, a body. */
const ASKED: Readonly<Record<string, readonly [route: string, body: Body]>> = {
  greedy: ['/v1/completions', { prompt: 'Once upon', max_tokens: 20, temperature: 0 }],
  sampled: ['/v1/completions', { prompt: 'Once upon', max_tokens: 20, ...sampled }],
  'of a streamed chat with a random seed': [
    '/v1/chat/completions',
    { messages: [hi], max_tokens: 20, stream: true },
  ],
  'with a stop string': [
    '/v1/completions',
    { prompt: 'Once upon', max_tokens: 60, stop: ['e', 'a'], ...sampled },
  ],
  'with penalties': [
    '/v1/completions',
    {
      prompt: 'Once',
      max_tokens: 30,
      repetition_penalty: 1.3,
      presence_penalty: 1,
      frequency_penalty: 0.5,
      ...sampled,
    },
  ],
  'with biases': [
    '/v1/completions',
    { prompt: 'Once', max_tokens: 30, logit_bias: { 40: 5, 41: -100 }, ...sampled },
  ],
  'with masks': [
    '/v1/completions',
    {
      prompt: 'Once',
      max_tokens: 9,
      min_tokens: 4,
      banned_token_ids: [40],
      stop_token_ids: [60],
      ...sampled,
    },
  ],
  'with a grammar': [
    '/v1/completions',
    { prompt: 'Once', max_tokens: 30, guided_regex: '[a-f]{3,9}', ...sampled },
  ],
  'with choices, in a stream': [
    '/v1/completions',
    { prompt: 'Once upon', n: 3, max_tokens: 60, stop: ['e', 'a'], stream: true, ...sampled },
  ],
  'with choices': ['/v1/completions', { prompt: ['One', 'Two'], n: 3, max_tokens: 12, ...sampled }],
  'of thinking that a limit has ended': [
    '/v1/chat/completions',
    { messages: [hi], max_tokens: 40, thinking_token_budget: 6, ...sampled },
  ],
  'of thinking in which there is a stop string': [
    '/v1/chat/completions',
    { messages: [hi], max_tokens: 40, stop: ['m'], ...sampled },
  ],
  'of thinking as text in which there is a stop string': [
    '/v1/chat/completions',
    { messages: [hi], max_tokens: 40, stop: ['m'], reasoning_format: 'none', ...sampled },
  ],
  'of a tool that must be called': [
    '/v1/chat/completions',
    {
      messages: [hi],
      max_tokens: 60,
      enable_thinking: false,
      tools: [
        { type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } },
      ],
      tool_choice: 'required',
      ...sampled,
    },
  ],
  'of a streamed message': ['/v1/messages', { messages: [hi], max_tokens: 12, top_k: 20, stream: true }],
  'of a streamed response': ['/v1/responses', { input: 'Hi', max_output_tokens: 12, seed: 3, stream: true }],
  'of a chat in lines': ['/api/chat', { messages: [hi], options: { num_predict: 12 } }],
  'of a length that the server limits': ['/execute', { job_id: 'long', prompt: 'Once' }],
  'of a job': ['/execute', { job_id: 'plain', prompt: 'Once', max_tokens: 12 }],
  'of a durable job': ['/execute', { job_id: 'kept', durable: true, prompt: 'Once', max_tokens: 12 }],
};

/** Of an answer whose request does not say how long it may be. */
const MOST_TOKENS = '70';

const fileOf = (name: string): string => join(folder.path, `${name}.txt`);

/** Those that are verified over another device than the one that computed them. */
const OVER_DEVICES = ['sampled', 'with a grammar', 'of a durable job'];

/** Saved answers in one file, whose receipts are verified by one process. */
const allOf = (names: readonly string[]): string =>
  names.map((name) => readFileSync(fileOf(name), 'utf8')).join('\n');

/** Has a gateway answer all, and ends it and its journal. */
async function answerAll(receipt: unknown, flags: readonly string[] = []): Promise<void> {
  const journal = join(folder.path, 'journal');
  const gateway = await Gateway.start(MODEL, [
    '--journal-dir',
    journal,
    ...['--served-model-name', 'tiny', '--max-tokens-out', MOST_TOKENS],
    ...flags,
  ]);
  await gateway.ready();
  await Promise.all(
    Object.entries(ASKED).map(async ([name, [route, body]]) => {
      const sent = {
        ...(route === '/execute' ? {} : { model: 'tiny' }),
        ...body,
        ...(receipt === undefined ? {} : { receipt }),
      };
      const answer = await (await gateway.post(route, sent)).text();
      writeFileSync(fileOf(name), answer);
      writeFileSync(`${fileOf(name)}.request`, JSON.stringify(sent));
    }),
  );
  await gateway.stop();
  assert.ok(existsSync(journal));
  rmSync(journal, { recursive: true });
}

function verify(...args: string[]): Ran {
  return runnel('verify', '--backend', 'cpu', ...args);
}

/** The receipts of an answer with what its request and the answer say. */
function verifyWithRequest(name: string, ...flags: string[]): Ran {
  return verify(fileOf(name), `${fileOf(name)}.request`, fileOf(name), '--model', MODEL, ...flags);
}

function requireEqual(ran: Ran, what: string): void {
  assert.is(ran.status, EQUAL, `${what}: ${ran.stdout}${ran.stderr}`);
  assert.match(ran.stdout, 'equal', what);
}

test('receipts of sampled, penalised, biased, masked, stopped and constrained answers of every API are verified by a runner of its own, once gateway and journal are gone', async () => {
  await answerAll('full');
  const all = folder.write('all.txt', allOf(Object.keys(ASKED)));
  const ran = verify(all, '--model', MODEL);
  requireEqual(ran, 'all answers');
  // The answers with choices have three and six.
  assert.is(ran.stdout.match(/: equal: /g)?.length, Object.keys(ASKED).length + 2 + 5, ran.stdout);
  assert.match(
    readFileSync(fileOf('of thinking that a limit has ended'), 'utf8'),
    '"thinking_limit":{"max_tokens":6',
  );
  assert.match(
    readFileSync(fileOf('of a tool that must be called'), 'utf8'),
    '"grammar":{"kind":"structural_tag"',
  );
  const [isNone, isText] = [
    'of thinking in which there is a stop string',
    'of thinking as text in which there is a stop string',
  ].map((name) => JSON.parse(readFileSync(fileOf(name), 'utf8')).choices[0]);
  assert.match(isNone.message.reasoning_content, 'm');
  assert.equal([isNone.receipt.num_tokens, isText.receipt.stop_reason], [40, 'stop_sequence']);
  assert.is.not(isNone.receipt.call, isText.receipt.call);
  folder.write('cpu.txt', allOf(OVER_DEVICES));
});

test('a changed token of a receipt is found at its position', () => {
  const answer = JSON.parse(readFileSync(fileOf('sampled'), 'utf8'));
  const { receipt } = answer.choices[0];
  receipt.full.token_ids[7] ^= 1;
  const changed = folder.write('changed.json', JSON.stringify(receipt));
  const { status, stdout } = verify(changed, '--model', MODEL);
  assert.is(status, DIFFERS, stdout);
  assert.match(stdout, /token 7\b/);
  assert.match(stdout, String(receipt.full.token_ids[7]));
});

test('a receipt with another seed than the one that was used is found out', () => {
  const answer = JSON.parse(readFileSync(fileOf('sampled'), 'utf8'));
  const { receipt } = answer.choices[0];
  receipt.full.call.seed = '12';
  const changed = folder.write('seed.json', JSON.stringify(receipt));
  const { status, stdout } = verify(changed, '--model', MODEL);
  assert.is(status, DIFFERS, stdout);
  assert.match(stdout, /call/);
});

test('a flipped bit of a weight is found: the hashes of the contents differ, and both are named', () => {
  const bytes = readFileSync(MODEL);
  const at = bytes.length - 1000;
  bytes[at] = (bytes[at] as number) ^ 1;
  const flipped = folder.write('flipped.gguf', bytes);
  const { status, stdout } = verify(fileOf('greedy'), '--model', flipped);
  assert.is(status, UNVERIFIABLE, stdout);
  const named = stdout.match(/sha256:[0-9a-f]{64}/g) ?? [];
  assert.is(new Set(named).size, 2, stdout);
});

test('other arithmetic cannot verify a receipt, and both numerics ids are named', () => {
  const { status, stdout } = verify(fileOf('greedy'), '--model', MODEL, '--kv-cache-type', 'f32');
  assert.is(status, UNVERIFIABLE, stdout);
  assert.match(stdout, /numerics .*-kv-f32/);
});

test('with hashes alone the request and the answer are needed, and make up for the rest', async () => {
  await answerAll(true);
  const { status, stdout } = verify(fileOf('sampled'), '--model', MODEL);
  assert.is(status, UNVERIFIABLE, stdout);
  assert.match(stdout, /only the hashes/);
  for (const name of [
    ...['sampled', 'with choices', 'of a tool that must be called'],
    ...Object.keys(ASKED).filter((each) => /^of (a streamed|thinking)/.test(each)),
    ...['of a durable job', 'of a chat in lines'],
  ])
    requireEqual(verifyWithRequest(name), name);
  const answer = readFileSync(fileOf('sampled'), 'utf8');
  const { text } = JSON.parse(answer).choices[0];
  const forged = folder.write(
    'forged.json',
    answer.replace(JSON.stringify(text), JSON.stringify(`${text.slice(0, 8)}#${text.slice(9)}`)),
  );
  const found = verify(fileOf('sampled'), `${fileOf('sampled')}.request`, forged, '--model', MODEL);
  assert.is(found.status, DIFFERS, found.stdout);
  assert.match(found.stdout, /from token \d+ on/);
});

test('the choices of a stream are verified in whatever order they ended, with the seed of the first one if the request has none', () => {
  const name = 'with choices, in a stream';
  const events = readFileSync(fileOf(name), 'utf8').split('\n\n');
  const choiceOf = (event: string): number => receiptsIn(objectsIn(event))[0]?.choice ?? 0;
  const [ends, others] = [true, false].map((isEnd) =>
    events.filter((each) => each.includes('"receipt":') === isEnd),
  );
  const turned = (ends ?? []).sort((a, b) => choiceOf(b) - choiceOf(a));
  assert.equal(turned.map(choiceOf), [2, 1, 0]);
  writeFileSync(fileOf(name), [...(others ?? []), ...turned].join('\n\n'));
  const { seed: _, ...seedless } = JSON.parse(readFileSync(`${fileOf(name)}.request`, 'utf8'));
  writeFileSync(`${fileOf(name)}.request`, JSON.stringify(seedless));
  const ran = verifyWithRequest(name);
  requireEqual(ran, name);
  assert.match(ran.stdout, 'receipt 3 of 3: equal');
});

test('a length that the server has limited is verified with its limit, and without it nothing is said against the answer', () => {
  const name = 'of a length that the server limits';
  requireEqual(verifyWithRequest(name, '--max-tokens-out', MOST_TOKENS), name);
  const { status, stdout } = verifyWithRequest(name);
  assert.is(status, UNVERIFIABLE, stdout);
  assert.match(stdout, /does not give the call .* --max-tokens-out/);
});

test('a request that continues another response needs the conversation', () => {
  const name = 'of a streamed response';
  const request = JSON.parse(readFileSync(`${fileOf(name)}.request`, 'utf8'));
  writeFileSync(`${fileOf(name)}.request`, JSON.stringify({ ...request, previous_response_id: 'resp_1' }));
  const { status, stdout } = verifyWithRequest(name);
  assert.is(status, UNVERIFIABLE, stdout);
  assert.match(stdout, 'previous_response_id');
});

test('with --receipts on every answer has one', async () => {
  await answerAll(undefined, ['--receipts', 'on']);
  for (const name of Object.keys(ASKED))
    assert.match(readFileSync(fileOf(name), 'utf8'), '"receipt":{"version":2', name);
});

test('the weights of a model that is quantised while it is loaded are those of its file, and the quantisation is named', async () => {
  const flags = ['--quantize', 'q8_0', '--served-model-name', 'tiny'];
  const gateway = await (await Gateway.start(QWEN3, flags)).ready();
  const body = { model: 'tiny', prompt: 'Once', max_tokens: 12, receipt: 'full' };
  const answer = await (await gateway.post('/v1/completions', body)).text();
  await gateway.stop();
  const file = folder.write('quantised.json', answer);
  requireEqual(verify(file, '--model', QWEN3, '--quantize', 'q8_0'), 'quantised');
  const { status, stdout } = verify(file, '--model', QWEN3);
  assert.is(status, UNVERIFIABLE, stdout);
  assert.match(stdout, /--quantize q8_0/);
});

test('receipts made over the CPU are verified by cuda-runner over the emulated GPU', () => {
  const emulated = ['--backend', 'cuda', '--cuda-runner', CUDA_RUNNER_EMULATED];
  // There is no program that could take its place on the CPU.
  const gpuOnly = [...emulated, '--runner', join(folder.path, 'no-runner')];
  const ran = runnel('verify', ...gpuOnly, join(folder.path, 'cpu.txt'), '--model', MODEL);
  requireEqual(ran, 'all');
  assert.is(ran.stdout.match(/: equal: /g)?.length, OVER_DEVICES.length, ran.stdout);
});

test('a receipt made over the emulated GPU is verified by cpu-runner', async () => {
  await answerAll('full', ['--backend', 'cuda', '--cuda-runner', CUDA_RUNNER_EMULATED]);
  for (const name of OVER_DEVICES) assert.match(readFileSync(fileOf(name), 'utf8'), '"runner":"cuda', name);
  requireEqual(verify(folder.write('emulated.txt', allOf(OVER_DEVICES)), '--model', MODEL), 'all');
});

test.run();
