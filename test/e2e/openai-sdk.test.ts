import OpenAI, { APIError, BadRequestError, InternalServerError, NotFoundError } from 'openai';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ObservedRunner, TimeLimit } from '../../gateway/runner/observed-runner.ts';
import { GenerationError } from '../../gateway/runner/runner.ts';
import { testApp } from '../fixtures/app.ts';
import { EOS_ID } from '../fixtures/byte-model.ts';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { errorOf } from '../fixtures/errors.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { ScriptedRunner } from '../fixtures/scripted-runner.ts';

const test = suite('the official openai client');

const gateway = await Gateway.during(test, DEFAULT_MODEL, ['--served-model-name', 'smollm2,org/alias']);
const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: 'none', maxRetries: 0 });

const messages = [{ role: 'user' as const, content: 'What is the capital of France?' }];

test('streams a chat and gets its usage', async () => {
  const [model] = (await client.models.list()).data;
  assert.ok(model);
  const stream = await client.chat.completions.create({
    model: model.id,
    messages,
    temperature: 0,
    max_completion_tokens: 32,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = '';
  let finishReason: string | null | undefined;
  let usage: OpenAI.CompletionUsage | null | undefined;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? '';
    finishReason = chunk.choices[0]?.finish_reason ?? finishReason;
    usage = chunk.usage ?? usage;
  }
  assert.match(text, 'Paris');
  assert.ok(finishReason === 'stop' || finishReason === 'length');
  assert.ok(usage && usage.prompt_tokens > 10 && usage.completion_tokens > 0);
  assert.is(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);

  const whole = await client.chat.completions.create({
    model: model.id,
    messages,
    temperature: 0,
    max_completion_tokens: 32,
  });
  assert.is(whole.choices[0]?.message.content, text, 'streamed and whole are the same answer');
  assert.equal(whole.usage?.completion_tokens, usage.completion_tokens);
});

test('finds the model by each of its names', async () => {
  const names = ['smollm2', 'org/alias'];
  assert.equal(
    (await client.models.list()).data.map(({ id }) => id),
    names,
  );
  for (const model of names) {
    assert.is((await client.models.retrieve(model)).id, model);
    const answer = await client.chat.completions.create({ model, messages, max_completion_tokens: 1 });
    assert.is(answer.model, model);
  }
});

test('continues a conversation with the returned message and its extra fields', async () => {
  const request = { model: 'smollm2', temperature: 0, max_completion_tokens: 8, user: 'a person' };
  const first = await client.chat.completions.create({ ...request, messages });
  const [choice] = first.choices;
  assert.ok(choice);
  const named = messages.map((message) => ({ ...message, name: 'user_proxy' }));
  const answered = { ...choice.message, annotations: [] };
  const { data, response } = await client.chat.completions
    .create({
      ...request,
      messages: [...named, answered, { role: 'user', content: 'And of Spain?' }],
      modalities: ['text'],
      store: false,
      service_tier: 'auto',
      parallel_tool_calls: false,
      tools: [],
      tool_choice: 'none',
      response_format: { type: 'text' },
      prediction: { type: 'content', content: 'Madrid' },
    })
    .withResponse();
  assert.ok(data.choices[0]?.message.content);
  assert.is(
    response.headers.get('x-runnel-ignored'),
    'user, store, service_tier, prediction, messages.name, messages.annotations',
  );
});

test('has an answer gone on with, and sees the prompt that a chat makes', async () => {
  const request = { model: 'smollm2', temperature: 0, messages };
  const answerOf = async (more: object): Promise<string> => {
    const answer = await client.chat.completions.create({ ...request, ...more });
    return answer.choices[0]?.message.content ?? '';
  };
  const whole = await answerOf({ max_completion_tokens: 16 });
  const begun = await answerOf({ max_completion_tokens: 5 });
  const last = { role: 'assistant' as const, content: begun };
  const continued = { messages: [...messages, last], continue_final_message: true };
  const rest = await answerOf({ ...continued, max_completion_tokens: 11 });
  assert.is(begun + rest, whole);

  const { prompt } = await client.post<{ prompt: string }>(`${gateway.url}/apply-template`, {
    body: continued,
  });
  assert.ok(prompt.endsWith(`<|im_start|>assistant\n${begun}`), prompt);
  const { tokens } = await client.post<{ tokens: number[] }>(`${gateway.url}/tokenize`, {
    body: { content: prompt },
  });
  const { choices } = await client.completions.create({
    ...{ model: 'smollm2', prompt: tokens, temperature: 0, max_tokens: 11 },
  });
  assert.is(choices[0]?.text, rest, 'the text of the prompt is the prompt');
});

test('stops at a stop string', async () => {
  const whole = await client.chat.completions.create({
    model: 'smollm2',
    messages,
    temperature: 0,
    max_completion_tokens: 32,
    stop: ['Paris'],
  });
  assert.is(whole.choices[0]?.finish_reason, 'stop');
  assert.not.match(whole.choices[0]?.message.content ?? '', 'Paris');
});

test('penalties and biases reach the sampler', async () => {
  const request = {
    model: 'smollm2',
    prompt: 'one two three one two three one',
    temperature: 0,
    max_tokens: 40,
  };
  const textOf = async (more: object): Promise<string | undefined> =>
    (await client.completions.create({ ...request, ...more })).choices[0]?.text;
  const plain = await textOf({});
  assert.is(await textOf({ presence_penalty: 0, frequency_penalty: 0, logit_bias: {} }), plain);
  assert.is.not(await textOf({ presence_penalty: 2 }), plain);
  assert.is.not(await textOf({ frequency_penalty: 2 }), plain);
  assert.is(await textOf({ logit_bias: { 504: 100 }, max_tokens: 3 }), 'TheTheThe');
});

test('gets errors it can parse', async () => {
  const tooHot = await errorOf(() =>
    client.chat.completions.create({ model: 'smollm2', messages, temperature: 9 }),
  );
  assert.instance(tooHot, BadRequestError);
  assert.is((tooHot as BadRequestError).param, 'temperature');
  assert.match((tooHot as BadRequestError).message, 'temperature must be at most 2.0 (got 9.0)');
  const long = [{ role: 'user' as const, content: 'word '.repeat(10_000) }];
  const tooLong = await errorOf(() => client.chat.completions.create({ model: 'smollm2', messages: long }));
  assert.is((tooLong as BadRequestError).code, 'context_length_exceeded');
  assert.match((tooLong as BadRequestError).message, "This model's maximum context length is ");
  assert.instance(
    await errorOf(() => client.chat.completions.create({ model: 'gpt-4', messages })),
    NotFoundError,
  );
});

test('completes prompts of every form, whole and streamed alike', async () => {
  const request = { model: 'smollm2', max_tokens: 8, temperature: 0 };
  const prompt = 'The capital of France is';
  const whole = await client.completions.create({ ...request, prompt, logprobs: 2 });
  const [choice] = whole.choices;
  assert.ok(choice);
  assert.match(choice.text, 'Paris');
  assert.is(choice.finish_reason, 'length');
  const { tokens, text_offset, token_logprobs, top_logprobs } = choice.logprobs ?? {};
  assert.is(tokens?.join(''), choice.text);
  assert.is(tokens?.length, 8);
  assert.is(text_offset?.[1], tokens?.[0]?.length);
  assert.is(top_logprobs?.[0]?.[tokens?.[0] ?? ''], token_logprobs?.[0]);
  assert.equal(whole.usage?.completion_tokens, 8);

  let streamed = '';
  for await (const chunk of await client.completions.create({ ...request, prompt, stream: true })) {
    streamed += chunk.choices[0]?.text ?? '';
  }
  assert.is(streamed, choice.text);

  const { tokens: ids } = (await (await gateway.post('/tokenize', { content: prompt })).json()) as {
    tokens: number[];
  };
  const several = await client.completions.create({ ...request, prompt: [ids, ids] });
  assert.equal(
    several.choices.map(({ index, text }) => ({ index, text })),
    [0, 1].map((index) => ({ index, text: choice.text })),
    'ids are the same prompt, and a batch gives the same answer',
  );
});

test('gets log-probabilities of a chat, whole and streamed alike', async () => {
  const request = {
    model: 'smollm2',
    messages,
    temperature: 0,
    max_completion_tokens: 12,
    logprobs: true,
    top_logprobs: 3,
  };
  const whole = await client.chat.completions.create(request);
  const content = whole.choices[0]?.logprobs?.content ?? [];
  const text = whole.choices[0]?.message.content ?? '';
  assert.is(Buffer.from(content.flatMap(({ bytes }) => bytes ?? [])).toString(), text);
  for (const { token, logprob, top_logprobs } of content) {
    assert.ok(logprob <= 0);
    assert.is(top_logprobs.length, 3);
    assert.is(top_logprobs[0]?.token, token, 'temperature 0 takes the most likely one');
    assert.is(top_logprobs[0]?.logprob, logprob);
  }
  const streamed: OpenAI.ChatCompletionTokenLogprob[] = [];
  for await (const chunk of await client.chat.completions.create({ ...request, stream: true })) {
    streamed.push(...(chunk.choices[0]?.logprobs?.content ?? []));
  }
  assert.equal(streamed, content);
});

test('gets several choices: the same whole, streamed, and one by one', async () => {
  const request = { model: 'smollm2', messages, max_completion_tokens: 10 };
  const whole = await client.chat.completions.create({ ...request, seed: 11, n: 2 });
  const texts = whole.choices.map(({ message }) => message.content);
  assert.is(texts.length, 2);
  assert.is.not(texts[0], texts[1], 'each choice has a seed of its own');

  const streamed = ['', ''];
  const finished: number[] = [];
  const stream = await client.chat.completions.create({ ...request, seed: 11, n: 2, stream: true });
  for await (const { choices } of stream) {
    for (const { index, delta, finish_reason } of choices) {
      streamed[index] += delta.content ?? '';
      if (finish_reason !== null) finished.push(index);
    }
  }
  assert.equal(streamed, texts);
  assert.equal(finished.sort(), [0, 1]);

  const second = await client.chat.completions.create({ ...request, seed: 12 });
  assert.is(second.choices[0]?.message.content, texts[1], 'choice 1 is that of the next seed');
});

/** A client of a gateway in this process whose runner the test scripts. */
function scripted(
  maxRetries: number,
  limitMs = 60_000,
): { runner: ScriptedRunner; client: OpenAI; numAsked: () => number } {
  const runner = new ScriptedRunner();
  const { app } = testApp({
    runner: new ObservedRunner(runner, [new TimeLimit(limitMs, Date.now)], Date.now),
  });
  runner.script = [[97], [EOS_ID]];
  let numAsked = 0;
  const fetch = async (url: string | URL | Request, init?: RequestInit): Promise<Response> => {
    numAsked++;
    const response = await app.request(url, init);
    // The fault is over when the client asks again.
    runner.refuse = undefined;
    return response;
  };
  const baseURL = 'http://localhost/v1';
  return {
    runner,
    client: new OpenAI({ baseURL, apiKey: 'none', maxRetries, fetch }),
    numAsked: () => numAsked,
  };
}

test('retries a 503 and a full queue after the advertised wait', async () => {
  for (const code of ['NOT_READY', 'QUEUE_FULL'] as const) {
    const { runner, client: patient, numAsked } = scripted(2);
    runner.refuse = new GenerationError(code, 'Not now.', { retriable: true, retryAfterSec: 0.8 });
    const startedMs = performance.now();
    const answer = await patient.chat.completions.create({ model: 'bytes', messages });
    assert.is(answer.choices[0]?.message.content, 'a');
    assert.is(numAsked(), 2);
    // Without a Retry-After its first wait is at most 500 ms.
    assert.ok(performance.now() - startedMs > 750, `${code}: it did not wait as long as it was told`);
  }
});

test('does not retry permanent failures, and names the failed request', async () => {
  const { runner, client: patient, numAsked } = scripted(2);
  runner.script = [new GenerationError('INFERENCE_FAILED', 'It kills runners.', { retriable: false })];
  const error = await errorOf(() => patient.chat.completions.create({ model: 'bytes', messages }));
  assert.instance(error, InternalServerError);
  assert.is(numAsked(), 1);
  assert.match((error as InternalServerError).requestID ?? '', /^[0-9a-f-]{36}$/);
});

test('is given what a time limit leaves, and asks once', async () => {
  for (const stream of [false, true]) {
    const { runner, client: patient, numAsked } = scripted(2, 400);
    runner.script = [[97, 98], 'wait'];
    const request = { model: 'bytes', messages };
    let text = '';
    let reason: string | null | undefined;
    if (stream) {
      for await (const { choices } of await patient.chat.completions.create({ ...request, stream })) {
        text += choices[0]?.delta.content ?? '';
        reason = choices[0]?.finish_reason ?? reason;
      }
    } else {
      const [choice] = (await patient.chat.completions.create(request)).choices;
      text = choice?.message.content ?? '';
      reason = choice?.finish_reason;
    }
    assert.equal([text, reason, numAsked()], ['ab', 'length', 1]);
  }
  const { runner, client: patient, numAsked } = scripted(2, 100);
  runner.script = ['wait'];
  const error = await errorOf(() => patient.chat.completions.create({ model: 'bytes', messages }));
  assert.is((error as APIError).code, 'timeout');
  assert.is(numAsked(), 1, 'a server that is too slow is not asked three times');
});

test('raises the error that ends a stream', async () => {
  const { runner, client: patient } = scripted(0);
  runner.script = [[97], new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: true })];
  const stream = await patient.completions.create({ model: 'bytes', prompt: 'Hi', stream: true });
  let text = '';
  const error = await errorOf(() =>
    (async () => {
      for await (const chunk of stream) text += chunk.choices[0]?.text ?? '';
    })(),
  );
  assert.is(text, 'a');
  assert.instance(error, APIError);
  assert.is((error as APIError).code, 'inference_failed');
});

test.run();
