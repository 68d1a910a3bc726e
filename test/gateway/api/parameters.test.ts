import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { z } from 'zod';
import { executeFields } from '../../../gateway/api/native/execute-request.ts';
import { chatFields } from '../../../gateway/api/openai/chat-request.ts';
import { completionFields } from '../../../gateway/api/openai/completion-request.ts';
import { Journal } from '../../../gateway/runner/journal.ts';
import { encodeToRunner } from '../../../gateway/runner/wire.ts';
import { testApp } from '../../fixtures/app.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';

/**
 * Every field of every generating route is obeyed, which shows in the frame that reaches the runner, or refused by
 * name. The fields are read from the schemas, so that a new one cannot be forgotten: each value below is tried on each.
 */

const test = suite('parameters');

const STRINGS = ['bc', 'other'];
const CANDIDATES: readonly unknown[] = [
  ...[-1, 0, 0.25, 0.5, 1, 1.5, 2, 3, 8, 20, 200],
  ...[true, false, ...STRINGS],
  ...[[], STRINGS, [1, 2], [[1, 2], [3]], [{ role: 'user', content: 'other' }]],
  ...[{ 5: 1.5 }, { include_usage: true }],
];

/** Without effect, and accepted because SDKs send them. */
const HARMLESS = ['user', 'metadata', 'store', 'service_tier', 'safety_identifier', 'prompt_cache_key'];
/** Obeyed by the gateway: they change what the client gets and not what the runner does. */
const OBEYED_BY_GATEWAY = ['job_id', 'stop', 'stream', 'stream_options', 'metrics', 'token_ids', 'echo'];
/** What a field needs so that it is not refused as one that would be ignored. */
const NEEDS: Record<string, object> = {
  stream_options: { stream: true },
  top_logprobs: { logprobs: true },
  prompt_ids: { prompt: undefined, prompt_ids: [9] },
};
/** Between two looks at the clock: longer than any interval that events keep. */
const TICK_MS = 2000;

interface Route {
  readonly path: string;
  readonly fields: Readonly<Record<string, z.ZodType>>;
  readonly base: Readonly<Record<string, unknown>>;
}

const ROUTES: readonly Route[] = [
  { path: '/execute', fields: executeFields, base: { job_id: 'test', prompt: 'Hi', seed: 7 } },
  { path: '/v1/completions', fields: completionFields, base: { model: 'bytes', prompt: 'Hi', seed: 7 } },
  {
    path: '/v1/chat/completions',
    fields: chatFields,
    base: { model: 'bytes', messages: [{ role: 'user', content: 'Hi' }], seed: 7 },
  },
];

interface Outcome {
  readonly status: number;
  /** The frames that a runner would have got. */
  readonly frames: readonly string[];
  /** What the client got, without what differs each time. */
  readonly answer: string;
}

async function ask(path: string, body: object): Promise<Outcome> {
  let nowMs = 0;
  const runner = new ScriptedRunner();
  runner.script = [[...Buffer.from(STRINGS.join(' '))], [EOS_ID]];
  const { post } = testApp({ runner, monotonicNow: () => (nowMs += TICK_MS) });
  const response = await post(path, body);
  const answer = (await response.text()).replace(/cmpl-[0-9a-f-]{36}|"(decode_time_ms|created)":\d+/g, '');
  const frames = runner.requests.map((request) => {
    const generate = { requestId: 1, ...new Journal(request).toGenerate() };
    return Buffer.from(encodeToRunner({ type: 'generate', ...generate })).toString('hex');
  });
  return { status: response.status, frames, answer };
}

type Verdict = 'obeyed' | 'not supported' | 'refused' | 'same as before' | 'ignored';

async function verdictOf(route: Route, name: string, value: unknown, before: Outcome): Promise<Verdict> {
  const outcome = await ask(route.path, { ...route.base, ...NEEDS[name], [name]: value });
  if (outcome.status !== 200) {
    const what = `${route.path}: ${name} = ${JSON.stringify(value)}`;
    assert.ok(outcome.status === 400 || outcome.status === 404, `${what} gives ${outcome.status}`);
    assert.match(outcome.answer, new RegExp(`"(param|field)":"${name}[".]`), `${what} is refused by name`);
    assert.equal(outcome.frames, [], `${what} does not reach the runner`);
    return / is not supported; | is not here; /.test(outcome.answer) ? 'not supported' : 'refused';
  }
  const changed = OBEYED_BY_GATEWAY.includes(name)
    ? outcome.answer !== before.answer
    : outcome.frames.join() !== before.frames.join();
  if (changed) return 'obeyed';
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
  test(`each field of ${route.path} is obeyed, refused by name, or on the list of harmless ones`, async () => {
    for (const name of Object.keys(route.fields)) {
      const before = await ask(route.path, { ...route.base, ...NEEDS[name] });
      assert.is(before.status, 200, before.answer);
      const verdicts = new Map<Verdict, unknown[]>();
      for (const value of CANDIDATES) {
        const verdict = await verdictOf(route, name, value, before);
        verdicts.set(verdict, [...(verdicts.get(verdict) ?? []), value]);
      }
      if (HARMLESS.includes(name)) {
        assert.equal([...verdicts.keys()], ['ignored'], `${name} is harmless`);
        continue;
      }
      // Values that such a field takes are those its refusal names, which ask for what happens anyway.
      if (verdicts.has('not supported')) {
        assert.not(verdicts.has('obeyed'), `${name} is both supported and not`);
        continue;
      }
      const ignored = JSON.stringify(verdicts.get('ignored'));
      assert.not(verdicts.has('ignored'), `${route.path} takes ${name} = ${ignored}, and nothing changes`);
      assert.ok(
        verdicts.has('obeyed'),
        `no candidate shows that ${route.path} obeys ${name}: add a value that it takes`,
      );
    }
  });

  test(`what ${route.path} does not know is refused by name`, async () => {
    const { status, answer, frames } = await ask(route.path, { ...route.base, colour: 'red' });
    assert.is(status, 400);
    assert.match(answer, 'colour is not a field of this request');
    assert.equal(frames, []);
  });
}

test('the lists of exceptions name fields that there are', () => {
  const names = new Set(ROUTES.flatMap(({ fields }) => Object.keys(fields)));
  for (const name of [...HARMLESS, ...OBEYED_BY_GATEWAY, ...Object.keys(NEEDS)])
    assert.ok(names.has(name), name);
});

test.run();
