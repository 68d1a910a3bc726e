import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { GenerationError } from '../../../../gateway/runner/runner.ts';
import type { Log } from '../../../../gateway/telemetry/log.ts';
import { testApp } from '../../../fixtures/app.ts';
import { EOS_ID } from '../../../fixtures/byte-model.ts';
import { ScriptedRunner } from '../../../fixtures/scripted-runner.ts';

interface Context {
  runner: ScriptedRunner;
  errors: Record<string, unknown>[];
  ask: (path: string, body?: object, headers?: Record<string, string>) => Promise<Response>;
}

const test = suite<Context>('headers of OpenAI’s routes');

test.before.each((context) => {
  const runner = new ScriptedRunner();
  runner.script = [[97], [EOS_ID]];
  const errors: Record<string, unknown>[] = [];
  const quiet = () => {};
  const log = {
    debug: quiet,
    info: quiet,
    warn: quiet,
    error: (fields: Record<string, unknown>) => errors.push(fields),
  };
  const { app } = testApp({ runner, log: log as unknown as Log });
  const ask: Context['ask'] = async (path, body, headers = {}) =>
    app.request(path, {
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      headers: { 'content-type': 'application/json', ...headers },
    });
  Object.assign(context, { runner, errors, ask });
});

const complete = { model: 'bytes', prompt: 'Hi' };

test('x-request-id: a new one for each request without, and in place of one of another form', async ({
  ask,
}) => {
  const ids = [await ask('/v1/models'), await ask('/v1/models')].map(({ headers }) =>
    headers.get('x-request-id'),
  );
  for (const id of ids) assert.match(id ?? '', /^[0-9a-f-]{36}$/);
  assert.is.not(ids[0], ids[1]);
  for (const id of ['', 'a b', 'ä', 'trace:1/2', '<script>', 'x'.repeat(129)]) {
    const response = await ask('/v1/models', undefined, { 'x-request-id': id });
    assert.is(response.status, 200, `"${id}" hinders nobody`);
    assert.match(response.headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/, 'nor is it repeated');
  }
});

test('x-request-id: the log of a failure has it, in a stream too', async ({ runner, ask, errors }) => {
  runner.script = [[97], new GenerationError('INFERENCE_FAILED', 'It broke.', { retriable: false })];
  for (const stream of [false, true]) {
    await (await ask('/v1/completions', { ...complete, stream }, { 'x-request-id': 'find-me' })).text();
  }
  assert.equal(
    errors.map(({ event, request_id }) => ({ event, request_id })),
    Array(2).fill({ event: 'error', request_id: 'find-me' }),
  );
});

test.run();
