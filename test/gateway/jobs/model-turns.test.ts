import * as assert from 'uvu/assert';
import type { ServedModel } from '../../../gateway/models/model-registry.ts';
import type { GenerateRequest } from '../../../gateway/runner/runner.ts';
import { oneModel } from '../../fixtures/app.ts';
import { byteModel, EOS_ID } from '../../fixtures/byte-model.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { type DurableApp, durableApp, journalFolder } from '../../fixtures/durable.ts';
import { type Act, ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';

/** Durable jobs of a model whose time slice is over. Its gate is never closed here, so their next turn begins at once. */

const ANSWER = [...Buffer.from('Hello.'), EOS_ID];

const test = closingSuite('turns of models');

interface Begun extends DurableApp {
  /** The model, which is leaving until the test says otherwise. */
  readonly leaving: ServedModel & { isLeaving: boolean };
}

/** scriptOf: what comes behind the tokens that a request goes on from. */
async function appWith(
  scriptOf: (known: number, request: GenerateRequest) => readonly Act[],
): Promise<Begun> {
  const runner = new ScriptedRunner();
  runner.scriptOf = (request) => scriptOf(request.resumeFrom?.tokenIds.length ?? 0, request);
  const app = await durableApp(journalFolder(), { runner });
  const leaving = { ...oneModel(() => byteModel, runner).default, isLeaving: true };
  return { ...app, leaving };
}

const tokens = (known: number): Act[] => ANSWER.slice(known).map((id) => [id]);

/** Begins an answer to this prompt, and returns its events without ids and times. */
async function begin(app: DurableApp, prompt: string): Promise<string> {
  const body = { model: 'bytes', prompt, seed: 1, max_tokens: 20, stream: true, durable: true };
  const text = await (await app.post('/v1/completions', body)).text();
  return text.replaceAll(/"id":"[^"]+"|"created":\d+/g, '');
}

const promptsOf = ({ runner }: DurableApp): string[] =>
  runner.requests.map(
    ({ promptIds, resumeFrom }) => `${Buffer.from(promptIds)} ${resumeFrom?.tokenIds.length ?? 0}`,
  );

test('a job that is handed over after each of its tokens goes on with the next one, and its client has the same events', async () => {
  const expected = await begin(await appWith(tokens), 'a');
  const app = await appWith(tokens);
  app.jobs.endTurn(app.leaving);
  assert.is(await begin(app, 'a'), expected);
  assert.equal(
    promptsOf(app),
    ANSWER.map((_, index) => `a ${index}`),
  );
});

/** In its first turn b has one token, and a and c have none. */
const unequal = async (): Promise<Begun> => {
  const app: Begun = await appWith((known, { promptIds }) => {
    if (app.runner.requests.length > 3) return tokens(known);
    return String.fromCharCode(...promptIds) === 'b' ? [...tokens(0).slice(0, 1), 'wait'] : ['wait'];
  });
  return app;
};

test('no job is handed over before one of its model has a token', async () => {
  const app = await unequal();
  const answers = ['a', 'c'].map((prompt) => begin(app, prompt));
  await until(PATIENCE_MS, 'Two that wait', () => app.runner.numAtWait === 2);
  app.jobs.endTurn(app.leaving);
  const isParked = app.lines().some(({ event }) => event === 'durable_parked');
  assert.not.ok(isParked, 'the turn lasts until there is a token');
  answers.push(begin(app, 'b'));
  for (const answer of await Promise.all(answers)) assert.match(answer, /\[DONE\]/);
});

test('jobs that have no token when a turn ends are first in the next one', async () => {
  const app = await unequal();
  const answers: Promise<string>[] = [];
  for (const [index, prompt] of ['b', 'a', 'c'].entries()) {
    answers.push(begin(app, prompt));
    await until(PATIENCE_MS, `${prompt} that waits`, () => app.runner.numAtWait === index + 1);
  }
  app.jobs.endTurn(app.leaving);
  for (const answer of await Promise.all(answers)) assert.match(answer, /\[DONE\]/);
  assert.equal(promptsOf(app).slice(3, 6), ['a 0', 'c 0', 'b 1']);
});

test('a job that was parked by hand waits for whoever resumes it, whatever turns there are', async () => {
  const app = await appWith((known) => (known === 0 ? [...tokens(0).slice(0, 2), 'wait'] : tokens(known)));
  const answer = begin(app, 'a');
  await until(PATIENCE_MS, 'Its tokens', () => app.runner.numAtWait === 1);
  await app.jobs.parkAll(undefined);
  app.jobs.endTurn(app.leaving);
  assert.is(app.jobs.numParked, 1);
  app.leaving.isLeaving = false;
  await app.jobs.resumeAll(undefined);
  assert.match(await answer, /\[DONE\]/);
  assert.equal(promptsOf(app), ['a 0', 'a 2']);
});

test('jobs of a model that does not leave any more, and of other models, are left alone', async () => {
  const app = await appWith((known) => [...tokens(known).slice(0, 3), 'wait']);
  begin(app, 'a').catch(() => {});
  await until(PATIENCE_MS, 'Its tokens', () => app.runner.numAtWait === 1);
  app.jobs.endTurn({ ...app.leaving, names: ['another'] });
  app.jobs.endTurn({ ...app.leaving, isLeaving: false });
  assert.equal([app.jobs.stats?.numResumed, promptsOf(app)], [0, ['a 0']]);
});

test.run();
