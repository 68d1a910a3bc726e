import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID, TURN_ID } from '../../../fixtures/byte-model.ts';
import type { ScriptedRunner } from '../../../fixtures/scripted-runner.ts';
import { readEvents } from '../../../fixtures/sse.ts';

const test = suite<{ runner: ScriptedRunner; chat: (body: object) => Promise<Response> }>('chat completions');

test.before.each((context) => {
  const { runner, post } = testApp({ now: () => 1_800_000_000_000 });
  context.runner = runner;
  context.chat = async (body) =>
    post('/v1/chat/completions', {
      model: 'bytes',
      messages: [{ role: 'user', content: 'Hi' }],
      ...body,
    });
});

const bytes = (text: string): number[] => [...Buffer.from(text)];

test('a whole completion has content, finish_reason and usage', async ({ runner, chat }) => {
  runner.script = [bytes('Hello'), [EOS_ID]];
  const response = await chat({ seed: 7, max_completion_tokens: 20 });
  assert.is(response.status, 200);
  const { id, ...rest } = (await response.json()) as Record<string, unknown>;
  assert.match(String(id), /^chatcmpl-/);
  assert.equal(rest, {
    object: 'chat.completion',
    created: 1_800_000_000,
    model: 'bytes',
    system_fingerprint: 'scripted',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'Hello', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: {
      prompt_tokens: 9,
      completion_tokens: 6,
      total_tokens: 15,
      prompt_tokens_details: { cached_tokens: 0 },
    },
  });
  assert.equal(runner.requests[0]?.promptIds, [TURN_ID, ...bytes('user: Hi')]);
  assert.is(runner.requests[0]?.maxTokens, 20);
  assert.is(runner.requests[0]?.sampling.seed, 7n);
});

test('a stream is role, content, finish_reason, usage when asked for, [DONE]', async ({ runner, chat }) => {
  runner.script = [bytes('He'), bytes('y')];
  const chunks = [];
  const response = await chat({ stream: true, stream_options: { include_usage: true }, max_tokens: 3 });
  for await (const { event, data } of readEvents(response)) {
    assert.is(event, undefined, 'chat events have no name');
    chunks.push(data === '[DONE]' ? data : JSON.parse(data));
  }
  assert.is(chunks.pop(), '[DONE]');
  assert.equal(
    chunks.map(({ choices, usage }) => ({ choices, usage })),
    [
      { choices: [delta({ role: 'assistant', content: '' })], usage: null },
      { choices: [delta({ content: 'He' })], usage: null },
      { choices: [delta({ content: 'y' })], usage: null },
      { choices: [delta({}, 'length')], usage: null },
      {
        choices: [],
        usage: {
          prompt_tokens: 9,
          completion_tokens: 3,
          total_tokens: 12,
          prompt_tokens_details: { cached_tokens: 0 },
        },
      },
    ],
  );
  assert.is(new Set(chunks.map(({ id, created }) => `${id} ${created}`)).size, 1);
});

function delta(content: object, finishReason: string | null = null): object {
  return { index: 0, delta: content, logprobs: null, finish_reason: finishReason };
}

test('usage is absent from a stream unless asked for', async ({ runner, chat }) => {
  runner.script = [[EOS_ID]];
  for await (const { data } of readEvents(await chat({ stream: true }))) assert.not.match(data, 'usage');
});

test('a stop string may be one string or a list', async ({ runner, chat }) => {
  for (const stop of ['END', ['x', 'END']]) {
    runner.script = [bytes('so far EN'), bytes('D.'), 'wait'];
    const body = (await (await chat({ stop })).json()) as {
      choices: { message: object; finish_reason: string }[];
    };
    assert.is(body.choices[0]?.finish_reason, 'stop');
    assert.equal(body.choices[0]?.message, { role: 'assistant', content: 'so far ', refusal: null });
  }
});

test('a failure in a stream is an error object, then [DONE]', async ({ runner, chat }) => {
  runner.script = [bytes('a'), new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: true })];
  const datas = [];
  for await (const { data } of readEvents(await chat({ stream: true }))) datas.push(data);
  assert.is(datas.pop(), '[DONE]');
  assert.equal(JSON.parse(datas.pop() ?? ''), {
    error: { message: 'It broke.', type: 'server_error', param: null, code: 'inference_failed' },
  });
});

test('an unsupported parameter is refused by name', async ({ runner, chat }) => {
  const refused: Record<string, unknown> = {
    n: 9,
    top_logprobs: 3,
    presence_penalty: 2.5,
    frequency_penalty: -2.5,
    response_format: 'xml',
    tools: 'none',
    tool_choice: 'required',
    temperature: 2.5,
    top_p: 1.5,
    max_tokens: 0,
    stop: Array(65).fill('a'),
    stream: 'yes',
    stream_options: 'yes',
    colour: 'red',
    messages: [],
    model: '',
  };
  for (const [name, value] of Object.entries(refused)) {
    const response = await chat({ [name]: value });
    assert.is(response.status, 400, name);
    const { error } = (await response.json()) as { error: { param: string; message: string; type: string } };
    assert.is(error.param, name);
    assert.match(error.message, name);
    assert.is(error.type, 'invalid_request_error');
  }
  assert.is(runner.requests.length, 0);
});

test('harmless fields that SDKs send are accepted, and null means absent', async ({ runner, chat }) => {
  runner.script = [[EOS_ID]];
  const response = await chat({
    n: 1,
    logprobs: false,
    presence_penalty: 0,
    frequency_penalty: 0,
    logit_bias: {},
    response_format: { type: 'text' },
    tools: [],
    user: 'someone',
    metadata: { a: 'b' },
    store: false,
    service_tier: 'auto',
    safety_identifier: 'x',
    prompt_cache_key: 'y',
    temperature: null,
    stop: null,
    max_tokens: null,
    stream_options: null,
  });
  assert.is(response.status, 200);
});

test('logit_bias is a map of ids below the vocabulary to biases, at most 1024', async ({ runner, chat }) => {
  runner.script = [[EOS_ID]];
  assert.is((await chat({ logit_bias: { 257: -100, 0: 100 } })).status, 200);
  assert.equal(
    runner.requests[0]?.sampling.logitBias,
    new Map([
      [0, 100],
      [257, -100],
    ]),
  );
  const many = Object.fromEntries(Array.from({ length: 1025 }, (_, id) => [id, 1]));
  for (const [logit_bias, param, message] of [
    [{ 258: 1 }, 'logit_bias.258', 'logit_bias.258 is token 258, but the vocabulary ends at 257'],
    [{ 5: 100.5 }, 'logit_bias.5', 'logit_bias.5 must be from -100 to 100 (got 100.5)'],
    [{ '05': 1 }, 'logit_bias.05', 'logit_bias must have token ids as keys, such as "50256" (got "05")'],
    [{ hello: 1 }, 'logit_bias.hello', 'token ids as keys'],
    [{ ['k'.repeat(1000)]: 1 }, `logit_bias.${'k'.repeat(64)}…`, `(got "${'k'.repeat(64)}…")`],
    [{ 5: 'x' }, 'logit_bias.5', 'logit_bias.5 must be a number'],
    [many, 'logit_bias', 'logit_bias must have at most 1024 tokens (got 1025)'],
  ] as const) {
    const response = await chat({ logit_bias });
    assert.is(response.status, 400, param);
    const { error } = (await response.json()) as { error: { param: string; message: string } };
    assert.is(error.param, param);
    assert.match(error.message, message);
  }
});

test('max_tokens and max_completion_tokens mean the same and may not contradict each other', async ({
  runner,
  chat,
}) => {
  runner.script = [[EOS_ID]];
  assert.is((await chat({ max_tokens: 5, max_completion_tokens: 5 })).status, 200);
  const response = await chat({ max_tokens: 5, max_completion_tokens: 6 });
  assert.is(response.status, 400);
  const { error } = (await response.json()) as { error: { param: string } };
  assert.is(error.param, 'max_tokens');
});

test('min_tokens above the limit is refused by the name that was sent', async ({ chat }) => {
  for (const name of ['max_tokens', 'max_completion_tokens']) {
    const response = await chat({ min_tokens: 9, [name]: 8 });
    assert.is(response.status, 400);
    const { error } = (await response.json()) as { error: { message: string } };
    assert.is(error.message, `min_tokens must be at most ${name}, which is 8 (got 9)`);
  }
});

const A = { token: 'a', logprob: -97 / 8, bytes: [97] };
const B = { token: 'b', logprob: -98 / 8, bytes: [98] };
const TURN = { token: '<turn>', logprob: -32, bytes: bytes('<turn>') };

test('logprobs: each token of the text with its bytes and the most likely ones', async ({ runner, chat }) => {
  runner.script = [bytes('a'), [EOS_ID]];
  const whole = (await (await chat({ logprobs: true, top_logprobs: 2 })).json()) as {
    choices: { logprobs: unknown }[];
  };
  assert.equal(whole.choices[0]?.logprobs, { content: [{ ...A, top_logprobs: [A, B] }], refusal: null });
  assert.is(runner.requests[0]?.topLogprobs, 2);

  runner.script = [[0xe2], [0x82, 0xac, 255, EOS_ID]];
  const parts = (await (await chat({ logprobs: true })).json()) as {
    choices: { message: { content: string }; logprobs: { content: { token: string; bytes: number[] }[] } }[];
  };
  assert.is(parts.choices[0]?.message.content, '€\ufffd');
  assert.equal(
    parts.choices[0]?.logprobs.content.map(({ token, bytes: raw }) => ({ token, raw })),
    [
      { token: '\\xe2', raw: [0xe2] },
      { token: '\\x82', raw: [0x82] },
      { token: '\\xac', raw: [0xac] },
      { token: '\\xff', raw: [0xff] },
    ],
  );

  runner.script = [[EOS_ID]];
  const empty = (await (await chat({ logprobs: true })).json()) as { choices: { logprobs: unknown }[] };
  assert.equal(empty.choices[0]?.logprobs, { content: [], refusal: null });
});

test('logprobs: a stream has them beside the text they belong to, and none for what a stop string takes', async ({
  runner,
  chat,
}) => {
  runner.script = [bytes('a'), [0x82], bytes('bEN'), bytes('D')];
  const seen = [];
  for await (const { data } of readEvents(
    await chat({ stream: true, logprobs: true, top_logprobs: 1, stop: 'END' }),
  )) {
    if (data !== '[DONE]') seen.push(JSON.parse(data).choices[0]);
  }
  const half = { token: '\\x82', logprob: -0x82 / 8, bytes: [0x82] };
  const entry = (token: object) => ({ content: [{ ...token, top_logprobs: [token] }], refusal: null });
  assert.equal(seen, [
    delta({ role: 'assistant', content: '' }),
    { ...delta({ content: 'a' }), logprobs: entry(A) },
    { ...delta({ content: '\ufffd' }), logprobs: entry(half) },
    { ...delta({ content: 'b' }), logprobs: entry(B) },
    delta({}, 'stop'),
  ]);
});

test('logprobs: minus infinity, which JSON does not have, is -9999, and control tokens show their literal', async ({
  runner,
  chat,
}) => {
  runner.generate = (_, sink) => {
    const logprobs = [{ logprob: Number.NEGATIVE_INFINITY, topIds: [TURN_ID], topLogprobs: [-32] }];
    const last = { firstIndex: 0, tokenIds: bytes('a'), logprobs, finish: 'max_tokens' } as const;
    setImmediate(() => sink.onTokens(last));
    return { cancel: () => {}, pause: () => {}, resume: () => {} };
  };
  const { choices } = (await (await chat({ logprobs: true, top_logprobs: 1 })).json()) as {
    choices: { logprobs: { content: object[] } }[];
  };
  assert.equal(choices[0]?.logprobs.content, [{ ...A, logprob: -9999, top_logprobs: [TURN] }]);
});

/** Gives each choice its own answer: "0", "1" and so on, by its seed. */
function numberedAnswers(runner: ScriptedRunner, seed: bigint): void {
  runner.scriptOf = ({ sampling }) => [
    bytes(String(BigInt.asUintN(64, sampling.seed - seed))),
    bytes('!'),
    [EOS_ID],
  ];
}

test('n: choice i samples with the seed plus i, modulo 2^64', async ({ runner, chat }) => {
  const seed = 2n ** 64n - 2n;
  numberedAnswers(runner, seed);
  // JSON.stringify cannot write a bigint. In two's complement the same seed is a small number.
  const whole = (await (await chat({ n: 3, seed: -2 })).json()) as {
    choices: { index: number; message: { content: string } }[];
    usage: object;
  };
  assert.equal(
    whole.choices.map(({ index, message }) => [index, message.content]),
    [
      [0, '0!'],
      [1, '1!'],
      [2, '2!'],
    ],
  );
  assert.equal(
    runner.requests.map(({ sampling }) => sampling.seed),
    [seed, seed + 1n, 0n],
  );
  assert.equal(whole.usage, {
    prompt_tokens: 9,
    completion_tokens: 9,
    total_tokens: 18,
    prompt_tokens_details: { cached_tokens: 0 },
  });
});

test('n: a stream interleaves the choices by index, and no step is cut over two writes', async ({
  runner,
  chat,
}) => {
  numberedAnswers(runner, 5n);
  const response = await chat({ n: 2, seed: 5, stream: true, stream_options: { include_usage: true } });
  const writes: string[][] = [];
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    const datas = Buffer.from(chunk).toString().trimEnd().split('\n\n');
    writes.push(datas.map((data) => data.replace(/^data: /, '')));
  }
  const short = (data: string): string => {
    if (data === '[DONE]') return data;
    const { choices, usage } = JSON.parse(data);
    const [choice] = choices;
    if (choice === undefined) return `usage ${usage.total_tokens}`;
    return `${choice.index} ${choice.finish_reason ?? choice.delta.role ?? choice.delta.content}`;
  };
  const steps = [
    ['0 assistant', '1 assistant'],
    ['0 0', '1 1'],
    ['0 !', '1 !'],
    ['0 stop', '1 stop', 'usage 15', '[DONE]'],
  ];
  assert.equal(writes.flat().map(short), steps.flat());
  const lastOfSteps = steps.map((step) => step.at(-1));
  for (const write of writes) assert.ok(lastOfSteps.includes(short(write.at(-1) ?? '')), write.join());
});

test('n: the failure of one choice ends the request with its error', async ({ runner, chat }) => {
  const failure = new GenerationError('OUT_OF_MEMORY', 'It is too long.', { retriable: false });
  runner.scriptOf = ({ sampling }) =>
    sampling.seed === 6n ? [bytes('a'), failure] : [bytes('a'), 'wait', [EOS_ID]];
  const whole = await chat({ n: 3, seed: 5 });
  assert.is(whole.status, 400);
  assert.is(whole.headers.get('x-should-retry'), 'false');
  const datas = [];
  for await (const { data } of readEvents(await chat({ n: 3, seed: 5, stream: true }))) datas.push(data);
  assert.is(datas.pop(), '[DONE]');
  assert.match(datas.pop() ?? '', '"error":{"message":"It is too long."');
  assert.is(runner.cancelled, 6, 'the others are cancelled');
});

test('contents may be lists of text parts; other parts, roles and models are refused', async ({
  runner,
  chat,
}) => {
  runner.script = [[EOS_ID]];
  const parts = [
    { type: 'text', text: 'H' },
    { type: 'text', text: 'i' },
  ];
  assert.is((await chat({ messages: [{ role: 'developer', content: parts }] })).status, 200);
  assert.equal(runner.requests[0]?.promptIds, [TURN_ID, ...bytes('system: Hi')]);
  const image = [{ type: 'image_url', image_url: { url: 'data:' } }];
  assert.is((await chat({ messages: [{ role: 'user', content: image }] })).status, 400);
  assert.is((await chat({ messages: [{ role: 'root', content: 'x' }] })).status, 400);

  const response = await chat({ model: 'other' });
  assert.is(response.status, 404);
  const { error } = (await response.json()) as { error: { code: string } };
  assert.is(error.code, 'model_not_found');
});

test('too many tokens, and messages that the template refuses, are the client’s to mend', async ({
  chat,
}) => {
  for (const [messages, code] of [
    [[{ role: 'user', content: 'x'.repeat(600) }], 'context_length_exceeded'],
    [[{ role: 'user', content: 'x'.repeat(60_000) }], 'context_length_exceeded'],
    [[{ role: 'assistant', content: 'x' }], 'chat_template_error'],
  ] as const) {
    const response = await chat({ messages });
    assert.is(response.status, 400);
    const { error } = (await response.json()) as { error: { code: string; param: string; message: string } };
    assert.is(error.code, code);
    assert.is(error.param, 'messages');
    // LangChain and LiteLLM recognise the error by these words.
    if (code === 'context_length_exceeded')
      assert.match(error.message, /^This model's maximum context length is 512 tokens/);
  }
});

test.run();
