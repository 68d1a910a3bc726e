import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { z } from 'zod';
import { ANYTHING, type IgnoredFields } from '../../../gateway/api/fields.ts';
import { executeBody } from '../../../gateway/api/native/execute.ts';
import { chat } from '../../../gateway/api/openai/chat-request.ts';
import { completions } from '../../../gateway/api/openai/completion-request.ts';
import { embeddingBody } from '../../../gateway/api/openai/embeddings.ts';
import { chatIgnored, completionIgnored, embeddingIgnored } from '../../../gateway/api/openai/fields.ts';
import { rerankBody, rerankIgnored } from '../../../gateway/api/rerank/rerank.ts';
import { scoreBody, scoreIgnored } from '../../../gateway/api/rerank/score.ts';
import { responsesBody, responsesIgnored } from '../../../gateway/api/responses/request.ts';
import { encodeToRunner } from '../../../gateway/runner/protocol/to-runner.ts';
import { GenerationState } from '../../../gateway/runner/supervision/generation-state.ts';
import { testApp } from '../../fixtures/app.ts';
import { EOS_ID, fillingModel, rankingModel } from '../../fixtures/byte-model.ts';
import { durableApp, journalFolder } from '../../fixtures/durable.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { thinkingModel } from '../../fixtures/thinking-model.ts';

/**
 * Every field of every generating route is obeyed, which shows in the frame that reaches the runner; or refused by
 * name; or it changes nothing and the answer says so. The fields are read from the schemas, so that a new one cannot be
 * forgotten. Each value below is tried on each field.
 */

const test = suite('parameters');

const STRINGS = ['bc', 'other'];
const TOOLS = [{ type: 'function', function: { name: 'other' } }];
/** Tools in the form of the Responses API. */
const FLAT_TOOLS = [{ type: 'function', name: 'other' }];
const CANDIDATES: readonly unknown[] = [
  ...[-1, 0, 0.25, 0.5, 1, 1.5, 2, 3, 8, 20, 200],
  ...[true, false, ...STRINGS],
  ...[[], STRINGS, [1, 2], [[1, 2], [3]], [{ role: 'user', content: 'other' }]],
  ...[{ 5: 1.5 }, { include_usage: true }, { type: 'json_object' }, { regex: 'bc' }],
  ...[TOOLS, TOOLS[0]],
];

/** Values for fields that nothing obeys. */
const STRANGE: readonly unknown[] = [7, 'other', { other: 1 }];
/** Fields that the gateway obeys: they change what the client gets, not what the runner does. */
const OBEYED_BY_GATEWAY = [
  'job_id',
  'model',
  'stop',
  'stream',
  'stream_options',
  'metrics',
  'timings',
  'token_ids',
  'echo',
  'metadata',
  'durable',
  'background',
  'receipt',
  'dimensions',
  'encoding_format',
  'return_documents',
  'reasoning_format',
];
/** Tried on a model that thinks: others refuse them, or have nothing to do for them. */
const OF_THINKING = [
  'enable_thinking',
  'reasoning',
  'reasoning_effort',
  'reasoning_format',
  'thinking_token_budget',
  'thinking_budget',
  'reasoning_budget',
];
/** Fields that are refused if there is no journal. */
const OF_JOURNAL = ['durable', 'background'];
/**
 * Fields that must agree with another field, or with a response that is stored (stored-responses.test.ts), or whose larger values
 * change nothing (rerank.txt and embeddings-fields.txt of test/wire/cases).
 */
const FOLLOW_OTHERS = [
  ...['store', 'repeat_last_n', 'previous_response_id'],
  ...['top_n', 'max_tokens_per_doc', 'truncate_prompt_tokens'],
];
/** What a field needs beside it, so that it is not refused as one that would be ignored. */
const NEEDS: Record<string, object> = {
  stream_options: { stream: true },
  top_logprobs: { logprobs: true },
  parallel_tool_calls: { tools: TOOLS },
  tool_choice: { tools: TOOLS },
  continue_final_message: {
    add_generation_prompt: false,
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'H' },
    ],
  },
  prompt_ids: { prompt: undefined, prompt_ids: [9] },
};
/** Time between two readings of the clock: longer than any interval between events. */
const TICK_MS = 2000;

interface Route {
  readonly path: string;
  readonly fields: Readonly<Record<string, z.ZodType>>;
  /** The fields that nothing obeys. */
  readonly inert: IgnoredFields;
  readonly base: Readonly<Record<string, unknown>>;
  /** Added to NEEDS, or replacing entries of it. */
  readonly needs?: Readonly<Record<string, object>>;
  /** Added to CANDIDATES. */
  readonly candidates?: readonly unknown[];
  /** Candidates for one field only. */
  readonly candidatesOf?: Readonly<Record<string, readonly unknown[]>>;
}

function bodyOf({ base, needs }: Route, name: string): object {
  return { ...base, ...(needs?.[name] ?? NEEDS[name]) };
}

const ROUTES: readonly Route[] = [
  { path: '/execute', fields: executeBody.shape, inert: {}, base: { job_id: 'test', prompt: 'Hi', seed: 7 } },
  {
    path: '/v1/completions',
    fields: completions.body.shape,
    inert: completionIgnored,
    base: { model: 'bytes', prompt: 'Hi', seed: 7 },
  },
  {
    path: '/v1/chat/completions',
    fields: chat.body.shape,
    inert: chatIgnored,
    base: {
      model: 'bytes',
      messages: [{ role: 'user', content: 'Hi' }],
      seed: 7,
      // The same as if it were left out.
      add_generation_prompt: true,
    },
    candidates: [{ colour: 'red' }],
    candidatesOf: { reasoning_effort: ['none', 'low'], reasoning_format: ['none', 'auto', 'deepseek'] },
  },
  {
    path: '/v1/responses',
    fields: responsesBody.shape,
    inert: responsesIgnored,
    base: { model: 'bytes', input: 'Hi', seed: 7 },
    candidates: [
      ['message.output_text.logprobs'],
      { format: { type: 'json_object' } },
      { colour: 'red' },
      FLAT_TOOLS,
      FLAT_TOOLS[0],
    ],
    candidatesOf: { reasoning: [{ effort: 'low' }, { effort: 'none' }] },
    needs: {
      top_logprobs: { include: ['message.output_text.logprobs'] },
      parallel_tool_calls: { tools: FLAT_TOOLS },
      tool_choice: { tools: FLAT_TOOLS },
    },
  },
  {
    path: '/v1/embeddings',
    fields: embeddingBody.shape,
    inert: embeddingIgnored,
    base: { model: 'bytes', input: 'Hi' },
    candidates: ['base64'],
  },
  {
    path: '/v1/rerank',
    fields: rerankBody.shape,
    inert: rerankIgnored,
    base: { model: 'bytes', query: 'q', documents: ['one', 'two'] },
  },
  {
    path: '/v1/score',
    fields: scoreBody.shape,
    inert: scoreIgnored,
    base: { model: 'bytes', text_1: 'q', text_2: 'one' },
  },
];

interface Outcome {
  readonly status: number;
  /** The frames that a runner would have got. */
  readonly frames: readonly string[];
  /** The answer, without the parts that differ each time. */
  readonly answer: string;
  /** Whether the answer has a job whose events can be read again. */
  readonly hasJob: boolean;
  /** The header that names the fields that were ignored. */
  readonly ignored: string | null;
}

/** The prompts of this model show what its template is told. */
const thinking = thinkingModel(
  ({ options }) => `${JSON.stringify(options.variables)}${'.'.repeat(40)}<think>\n`,
);

let nowMs = 0;
const runner = new ScriptedRunner();
runner.script = [[...Buffer.from(STRINGS.join(' '))], [EOS_ID]];
const changes = { runner, monotonicNow: () => (nowMs += TICK_MS), modelNames: ['bytes', 'other'] };
/** To make one for each of some thousand requests would take half of the time. */
const app = testApp(changes);
const appOfThinking = testApp({ ...changes, model: () => thinking });
const appOfFilling = testApp({ ...changes, model: () => fillingModel });
const appOfRanking = testApp({ ...changes, model: () => rankingModel });

/** name: the field that is tried. Fields of a journal get an application of their own with an empty journal. */
async function ask(path: string, body: object, name = ''): Promise<Outcome> {
  nowMs = 0;
  runner.requests.splice(0);
  const durable = OF_JOURNAL.includes(name) ? await durableApp(journalFolder(), changes) : undefined;
  const ofName = OF_THINKING.includes(name) ? appOfThinking : name === 'suffix' ? appOfFilling : app;
  const { post } = durable ?? (/rerank|score/.test(path) ? appOfRanking : ofName);
  const response = await post(path, body);
  const answer = (await response.text()).replace(
    /(cmpl-|resp_|msg_|rerank-|score-)[0-9a-f-]{36}|"(decode_time_ms|created|created_at|completed_at)":\d+/g,
    '',
  );
  const frames = runner.requests.map((request) => {
    const generate = { requestId: 1, ...new GenerationState(request).toGenerate() };
    const frame = Buffer.from(encodeToRunner({ type: 'generate', ...generate })).toString('hex');
    // By its priority the gateway decides when it sends the frame.
    return `${request.priority ?? 0} ${frame}`;
  });
  await durable?.jobs.stop();
  const { status, headers } = response;
  const hasJob = headers.has('x-runnel-job-id');
  return { status, frames, answer, hasJob, ignored: headers.get('x-runnel-ignored') };
}

/** told: unknown members of the value are ignored, and the answer names them. */
type Verdict = 'obeyed' | 'refused' | 'same as before' | 'told' | 'ignored';

async function verdictOf(route: Route, name: string, value: unknown, before: Outcome): Promise<Verdict> {
  const body = { ...bodyOf(route, name), [name]: value };
  const outcome = await ask(route.path, body, name);
  if (outcome.status !== 200) {
    const what = `${route.path}: ${name} = ${JSON.stringify(value)}`;
    assert.ok(outcome.status === 400 || outcome.status === 404, `${what} gives ${outcome.status}`);
    assert.match(outcome.answer, new RegExp(`"(param|field)":"${name}[".]`), `${what} is refused by name`);
    assert.equal(outcome.frames, [], `${what} does not reach the runner`);
    return 'refused';
  }
  const changed = OBEYED_BY_GATEWAY.includes(name)
    ? outcome.answer !== before.answer || outcome.hasJob !== before.hasJob
    : outcome.frames.join() !== before.frames.join();
  if (changed) return 'obeyed';
  if (outcome.ignored?.includes(`${name}.`)) return 'told';
  const field = route.fields[name] as z.ZodType;
  const isSame = sameJson(field.parse(value), field.parse(route.base[name]));
  return isSame ? 'same as before' : 'ignored';
}

function sameJson(one: unknown, other: unknown): boolean {
  return jsonOf(one) === jsonOf(other);
}

function jsonOf(parsed: unknown): string | undefined {
  return JSON.stringify(parsed, (_, value: unknown) => {
    if (value instanceof Map) return [...value];
    return typeof value === 'bigint' ? String(value) : value;
  });
}

for (const route of ROUTES) {
  test(`each field of ${route.path} is applied or refused by name`, async () => {
    const exceptions = [...Object.keys(route.inert), ...FOLLOW_OTHERS];
    for (const name of Object.keys(route.fields).filter((each) => !exceptions.includes(each))) {
      const before = await ask(route.path, bodyOf(route, name), name);
      assert.is(before.status, 200, before.answer);
      const verdicts = new Map<Verdict, unknown[]>();
      const { candidates = [], candidatesOf = {} } = route;
      for (const value of [...CANDIDATES, ...candidates, ...(candidatesOf[name] ?? [])]) {
        const verdict = await verdictOf(route, name, value, before);
        verdicts.set(verdict, [...(verdicts.get(verdict) ?? []), value]);
      }
      const ignored = JSON.stringify(verdicts.get('ignored'));
      assert.not(verdicts.has('ignored'), `${route.path} takes ${name} = ${ignored}, and nothing changes`);
      assert.ok(
        verdicts.has('obeyed'),
        `no candidate shows that ${route.path} obeys ${name}: add a value that it takes`,
      );
    }
  });

  test(`each ignored field of ${route.path} is reported, or accepts only its effective value`, async () => {
    const before = await ask(route.path, route.base);
    assert.is(before.ignored, null);
    for (const [name, accepted] of Object.entries(route.inert)) {
      const taken = accepted === ANYTHING ? STRANGE : accepted;
      for (const value of taken) {
        const { ignored, ...outcome } = await ask(route.path, { ...route.base, [name]: value });
        const what = `${name} = ${JSON.stringify(value)}`;
        const { frames, answer, hasJob } = before;
        assert.equal(outcome, { status: 200, frames, answer, hasJob }, what);
        assert.is(ignored, accepted === ANYTHING ? name : null, what);
      }
      for (const value of STRANGE.filter((each) => !taken.some((known) => sameJson(each, known)))) {
        const { status, answer, frames } = await ask(route.path, { ...route.base, [name]: value });
        const what = `${name} = ${JSON.stringify(value)}`;
        assert.is(status, 400, what);
        const { error } = JSON.parse(answer) as { error: { param: string; code: string; message: string } };
        assert.equal([error.param, error.code], [name, 'unsupported_parameter'], what);
        for (const known of taken) assert.match(error.message, JSON.stringify(known), what);
        assert.equal(frames, [], what);
      }
    }
  });

  test(`an unknown field of ${route.path} is refused by name`, async () => {
    const { status, answer, frames } = await ask(route.path, { ...route.base, colour: 'red' });
    assert.is(status, 400);
    assert.match(answer, 'colour is not a field of this request');
    assert.equal(frames, []);
  });
}

test('the lists of exceptions name fields that there are', () => {
  const names = new Set(ROUTES.flatMap(({ fields }) => Object.keys(fields)));
  for (const name of [...OBEYED_BY_GATEWAY, ...FOLLOW_OTHERS, ...Object.keys(NEEDS)])
    assert.ok(names.has(name), name);
});

test.run();
