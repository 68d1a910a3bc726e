import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID, TURN_ID } from '../../../fixtures/byte-model.ts';
import type { ScriptedRunner } from '../../../fixtures/scripted-runner.ts';

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

const A = { token: 'a', logprob: -97 / 8, bytes: [97] };
const TURN = { token: '<turn>', logprob: -32, bytes: bytes('<turn>') };

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

test.run();
