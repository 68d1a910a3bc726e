import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID, TURN_ID } from '../../../fixtures/byte-model.ts';
import type { ScriptedRunner } from '../../../fixtures/scripted-runner.ts';
import { readEvents } from '../../../fixtures/sse.ts';

const test = suite<{ runner: ScriptedRunner; complete: (body: object) => Promise<Response> }>('completions');

test.before.each((context) => {
  const { runner, post } = testApp({ now: () => 1_800_000_000_000 });
  context.runner = runner;
  context.complete = async (body) => post('/v1/completions', { model: 'bytes', prompt: 'Hi', ...body });
});

const bytes = (text: string): number[] => [...Buffer.from(text)];

interface Body {
  readonly choices: readonly {
    index: number;
    text: string;
    logprobs: object | null;
    finish_reason: string;
  }[];
  readonly usage: object;
  readonly error: { readonly param: string; readonly message: string; readonly code: string };
}

async function bodyOf(response: Response | Promise<Response>): Promise<Body> {
  return (await (await response).json()) as Body;
}

test('a whole completion has text, finish_reason and usage', async ({ runner, complete }) => {
  runner.script = [bytes('Hello'), [EOS_ID]];
  const response = await complete({ seed: 7 });
  assert.is(response.status, 200);
  const { id, ...rest } = (await response.json()) as Record<string, unknown>;
  assert.match(String(id), /^cmpl-/);
  assert.equal(rest, {
    object: 'text_completion',
    created: 1_800_000_000,
    model: 'bytes',
    system_fingerprint: 'scripted',
    choices: [{ index: 0, text: 'Hello', logprobs: null, finish_reason: 'stop' }],
    usage: {
      prompt_tokens: 2,
      completion_tokens: 6,
      total_tokens: 8,
      prompt_tokens_details: { cached_tokens: 0 },
    },
  });
  assert.equal(runner.requests[0]?.promptIds, bytes('Hi'));
  assert.is(runner.requests[0]?.maxTokens, 16, 'the default');
});

test('a stream is text, finish_reason, usage when asked for, [DONE]', async ({ runner, complete }) => {
  runner.script = [bytes('He'), bytes('y')];
  const chunks = [];
  const options = { stream: true, stream_options: { include_usage: true }, max_tokens: 3 };
  for await (const { event, data } of readEvents(await complete(options))) {
    assert.is(event, undefined, 'the events have no name');
    chunks.push(data === '[DONE]' ? data : JSON.parse(data));
  }
  const chunk = (text: string, finish_reason: string | null = null) => ({
    choices: [{ index: 0, text, logprobs: null, finish_reason }],
    usage: null,
  });
  assert.is(chunks.pop(), '[DONE]');
  assert.equal(
    chunks.map(({ choices, usage }) => ({ choices, usage })),
    [
      chunk('He'),
      chunk('y'),
      chunk('', 'length'),
      {
        choices: [],
        usage: {
          prompt_tokens: 2,
          completion_tokens: 3,
          total_tokens: 5,
          prompt_tokens_details: { cached_tokens: 0 },
        },
      },
    ],
  );
  assert.is(new Set(chunks.map(({ id, object }) => `${id} ${object}`)).size, 1);
});

test('a failure in a stream is an error object, then [DONE]', async ({ runner, complete }) => {
  runner.script = [bytes('a'), new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: true })];
  const datas = [];
  for await (const { data } of readEvents(await complete({ stream: true }))) datas.push(data);
  assert.is(datas.pop(), '[DONE]');
  assert.match(datas.pop() ?? '', '"code":"inference_failed"');
});

test('prompt may be text, a list of texts, ids, or a list of ids', async ({ runner, complete }) => {
  const forms: [unknown, number[][]][] = [
    ['Hi', [bytes('Hi')]],
    [
      ['Hi', 'you'],
      [bytes('Hi'), bytes('you')],
    ],
    [[72, 105, 256], [[72, 105, 256]]],
    [
      [[72], [105, 0]],
      [[72], [105, 0]],
    ],
  ];
  for (const [prompt, expected] of forms) {
    runner.requests.length = 0;
    runner.script = [[EOS_ID]];
    const { choices, usage } = await bodyOf(complete({ prompt }));
    assert.equal(
      runner.requests.map(({ promptIds }) => promptIds),
      expected,
    );
    assert.is(choices.length, expected.length);
    assert.is((usage as { prompt_tokens: number }).prompt_tokens, expected.flat().length);
  }
});

test('several prompts: choices come by prompt, and each prompt samples as if alone', async ({
  runner,
  complete,
}) => {
  runner.scriptOf = ({ promptIds, sampling }) => [[...promptIds, ...bytes(`${sampling.seed}`)], [EOS_ID]];
  const { choices, usage } = await bodyOf(complete({ prompt: ['a', 'b'], n: 2, seed: 3 }));
  assert.equal(
    choices.map(({ index, text }) => `${index} ${text}`),
    ['0 a3', '1 a4', '2 b3', '3 b4'],
  );
  assert.equal(usage, {
    prompt_tokens: 2,
    completion_tokens: 12,
    total_tokens: 14,
    prompt_tokens_details: { cached_tokens: 0 },
  });
});

test('a prompt that cannot be is refused with its place', async ({ runner, complete }) => {
  const refused: [unknown, string, string][] = [
    [[1, 258, 2], 'prompt.1', 'prompt.1 is token 258, but the vocabulary ends at 257'],
    [[[1], [2, 999]], 'prompt.1.1', 'prompt.1.1 is token 999, but the vocabulary ends at 257'],
    [[1, -1], 'prompt.1', 'prompt.1 must be a token id, a whole number from 0 (got -1)'],
    [[[1], [0.5]], 'prompt.1.0', 'prompt.1.0 must be a token id, a whole number from 0 (got 0.5)'],
    [[1, 'a'], 'prompt', 'prompt must be a string, a list of strings'],
    [{ text: 'a' }, 'prompt', 'prompt must be a string, a list of strings'],
    [[], 'prompt', 'prompt must be a string, a list of strings'],
    [null, 'prompt', 'prompt is required'],
    ['', 'prompt', 'prompt is empty'],
    [['a', ''], 'prompt.1', 'prompt.1 is empty'],
    [[[1], []], 'prompt.1', 'prompt.1 is empty'],
    [['a', 'x'.repeat(512)], 'prompt.1', 'but prompt.1 takes 512;'],
    [Array(65).fill('a'), 'prompt', 'at most 64 choices, its prompts times n (got 65)'],
  ];
  for (const [prompt, param, message] of refused) {
    const response = await complete({ prompt });
    assert.is(response.status, 400, message);
    const { error } = await bodyOf(response);
    assert.is(error.param, param);
    assert.match(error.message, message);
  }
  assert.is(runner.requests.length, 0);
  assert.match((await bodyOf(complete({ prompt: Array(9).fill('a'), n: 8 }))).error.message, '(got 72)');
});

test('an unsupported parameter is refused by name', async ({ runner, complete }) => {
  const refused: Record<string, unknown> = {
    suffix: 'end',
    best_of: 2,
    logprobs: 6,
    n: 9,
    max_tokens: 0,
    stream_options: 'yes',
    messages: [],
  };
  for (const [name, value] of Object.entries(refused)) {
    const response = await complete({ [name]: value });
    assert.is(response.status, 400, name);
    const { error } = await bodyOf(response);
    assert.is(error.param, name);
    assert.match(error.message, name);
  }
  const unknownBias = await bodyOf(complete({ logit_bias: { 258: 1 } }));
  assert.is(unknownBias.error.param, 'logit_bias.258');
  assert.is(runner.requests.length, 0);
  assert.is((await bodyOf(complete({ model: 'other' }))).error.code, 'model_not_found');
});

test('the context rule: max_tokens is cut to what fits after the prompt', async ({ runner, complete }) => {
  runner.script = [[EOS_ID]];
  await complete({ prompt: 'x'.repeat(500), max_tokens: 100 });
  assert.is(runner.requests[0]?.maxTokens, 12);
});

test('logprobs: four lists side by side, the token itself always among the most likely', async ({
  runner,
  complete,
}) => {
  runner.script = [bytes('🙂a'), [0x82, EOS_ID]];
  const logprobsOf = async (body: object): Promise<{ top_logprobs?: object[] }> => {
    const { choices } = await bodyOf(complete(body));
    return choices[0]?.logprobs ?? {};
  };
  const logprobs = await logprobsOf({ logprobs: 1 });
  const ids = [...bytes('🙂a'), 0x82];
  const tokens = ['bytes:\\xf0', 'bytes:\\x9f', 'bytes:\\x99', 'bytes:\\x82', 'a', 'bytes:\\x82'];
  assert.equal(logprobs, {
    text_offset: [0, 0, 0, 0, 1, 2],
    token_logprobs: ids.map((id) => -id / 8),
    tokens,
    top_logprobs: ids.map((id, at) => ({ [tokens[at] as string]: -id / 8 })),
  });
  assert.is(runner.requests[0]?.topLogprobs, 1);
  runner.script = [bytes('a'), [EOS_ID]];
  assert.equal((await logprobsOf({ logprobs: 0 })).top_logprobs, [{ a: -97 / 8 }]);
});

test('logprobs: offsets in a stream go on from chunk to chunk', async ({ runner, complete }) => {
  runner.script = [bytes('ab'), bytes('c'), [EOS_ID]];
  const offsets = [];
  for await (const { data } of readEvents(await complete({ stream: true, logprobs: 2 }))) {
    if (data !== '[DONE]') offsets.push(JSON.parse(data).choices[0].logprobs?.text_offset ?? null);
  }
  assert.equal(offsets, [[0, 1], [2], null]);
});

test('echo: the prompt comes first, whole and streamed, once a choice', async ({ runner, complete }) => {
  runner.scriptOf = ({ promptIds }) => [[...promptIds.slice(0, 1)], bytes('!'), [EOS_ID]];
  const { choices, usage } = await bodyOf(complete({ prompt: ['Hé', 'you'], echo: true, n: 2 }));
  assert.equal(
    choices.map(({ text }) => text),
    ['HéH!', 'HéH!', 'youy!', 'youy!'],
  );
  assert.is((usage as { completion_tokens: number }).completion_tokens, 12);
  assert.is(runner.requests[0]?.promptLogprobs, undefined, 'nobody asked for log-probabilities');
  const texts = [];
  for await (const { data } of readEvents(await complete({ prompt: 'Hé', echo: true, stream: true }))) {
    if (data !== '[DONE]') texts.push(JSON.parse(data).choices[0].text);
  }
  assert.equal(texts, ['HéH', '!', '']);
});

test('echo with logprobs: the first token has none, offsets continue after the prompt', async ({
  runner,
  complete,
}) => {
  runner.script = [bytes('cé'), [EOS_ID]];
  const asked = { prompt: [TURN_ID, ...bytes('éb')], echo: true, logprobs: 1 };
  const { choices } = await bodyOf(complete(asked));
  assert.is(choices[0]?.text, 'ébcé', 'a control token has no text');
  const tokens = ['<turn>', 'bytes:\\xc3', 'bytes:\\xa9', 'b', 'c', 'bytes:\\xc3', 'bytes:\\xa9'];
  const logprobs = [null, ...bytes('ébcé').map((id) => -id / 8)];
  assert.equal(choices[0]?.logprobs, {
    text_offset: [0, 0, 0, 1, 2, 3, 3],
    token_logprobs: logprobs,
    tokens,
    top_logprobs: logprobs.map((value, at) => (value === null ? null : { [tokens[at] as string]: value })),
  });
  assert.is(runner.requests[0]?.promptLogprobs, 1);
  const chunks = [];
  for await (const { data } of readEvents(await complete({ ...asked, stream: true })))
    if (data !== '[DONE]') chunks.push(JSON.parse(data).choices[0].logprobs?.text_offset ?? null);
  assert.equal(chunks, [[0, 0, 0, 1, 2, 3, 3], null]);
});

test('echo without an answer: max_tokens 0 scores the prompt alone', async ({ runner, complete }) => {
  for (const script of [[bytes('x')], [[EOS_ID]]]) {
    runner.requests.length = 0;
    runner.script = script;
    const { choices, usage } = await bodyOf(
      complete({ prompt: 'Hi', echo: true, max_tokens: 0, logprobs: 0 }),
    );
    assert.is(runner.requests[0]?.maxTokens, 1, 'a runner cannot be asked for none');
    assert.equal(choices, [
      {
        index: 0,
        text: 'Hi',
        logprobs: {
          text_offset: [0, 1],
          token_logprobs: [null, -105 / 8],
          tokens: ['H', 'i'],
          top_logprobs: [null, { i: -105 / 8 }],
        },
        finish_reason: 'length',
      },
    ]);
    const prompt_tokens_details = { cached_tokens: 0 };
    assert.equal(usage, { prompt_tokens: 2, completion_tokens: 0, total_tokens: 2, prompt_tokens_details });
  }
});

test('cached tokens are those of each prompt’s first choice', async ({ runner, complete }) => {
  runner.script = [[EOS_ID]];
  runner.cachedOf = ({ promptIds, sampling }) => promptIds.length + 100 * Number(sampling.seed);
  const { usage } = await bodyOf(complete({ prompt: ['abc', 'de'], n: 2, seed: 0 }));
  assert.equal((usage as { prompt_tokens_details: object }).prompt_tokens_details, { cached_tokens: 5 });
});

test('min_tokens: stop strings wait as long, and what cannot be is refused', async ({ runner, complete }) => {
  runner.script = [bytes('a.b.c'), [EOS_ID]];
  assert.is((await bodyOf(complete({ stop: '.', min_tokens: 2 }))).choices[0]?.text, 'a.b');
  assert.is(runner.requests[0]?.minTokens, 2);
  const refused: [object, RegExp][] = [
    [{ min_tokens: 17 }, /min_tokens must be at most 16, the default of max_tokens \(got 17\)/],
    [{ min_tokens: 1, max_tokens: 0, echo: true }, /which is 0 \(got 1\)/],
    [
      { prompt: 'x'.repeat(500), max_tokens: 20, min_tokens: 13 },
      /^This model's maximum context length is 512 tokens, of which 12 remain after .* min_tokens asks for 13/,
    ],
  ];
  for (const [body, message] of refused) {
    const response = await complete(body);
    assert.is(response.status, 400);
    const { error } = await bodyOf(response);
    assert.is(error.param, 'min_tokens');
    assert.match(error.message, message);
  }
});

test('masks must name existing tokens and allow at least one', async ({ runner, complete }) => {
  const refused: [object, string, RegExp][] = [
    [{ stop_token_ids: [258] }, 'stop_token_ids.0', /is token 258, but the vocabulary ends at 257/],
    [{ allowed_token_ids: [1, 300] }, 'allowed_token_ids.1', /is token 300/],
    [{ banned_token_ids: [1, 300] }, 'banned_token_ids.1', /is token 300/],
    [{ stop_token_ids: Array(33).fill(1) }, 'stop_token_ids', /at most 32 tokens \(got 33\)/],
    [{ allowed_token_ids: [] }, 'allowed_token_ids', /must not be empty/],
    [{ banned_token_ids: [-1] }, 'banned_token_ids', /must be a whole number from 0 on/],
    [
      { allowed_token_ids: [1, 2], banned_token_ids: [2, 1] },
      'allowed_token_ids',
      /leaves no token that can be generated/,
    ],
    [
      { allowed_token_ids: [5, EOS_ID], stop_token_ids: [5], min_tokens: 1 },
      'allowed_token_ids',
      /leaves no token/,
    ],
    [{ banned_token_ids: Array.from({ length: 258 }, (_, id) => id) }, 'banned_token_ids', /leaves no token/],
  ];
  for (const [body, param, message] of refused) {
    const response = await complete(body);
    assert.is(response.status, 400, param);
    const { error } = await bodyOf(response);
    assert.is(error.param, param);
    assert.match(error.message, message);
  }
  assert.is(runner.requests.length, 0);
  runner.script = [bytes('ab')];
  const { choices } = await bodyOf(complete({ stop_token_ids: bytes('b') }));
  assert.equal([choices[0]?.text, choices[0]?.finish_reason], ['a', 'stop'], 'it is not part of the text');
});

test.run();
