import { createHash } from 'node:crypto';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from '../../../fixtures/app.ts';
import { byteModel } from '../../../fixtures/byte-model.ts';

const test = suite('Ollama’s models');

const details = { format: 'gguf', family: 'llama', families: ['llama'], quantization_level: 'F32' };
const modified_at = '2023-11-14T22:13:20.000Z';

/** sha256 of the model's first name and the time of its file. */
const digestOf = (name: string) => createHash('sha256').update(`${name}\n1700000000`).digest('hex');

test('tags lists the model by each of its names, with a tag', async () => {
  const digest = digestOf('bytes');
  const { get } = testApp({ modelNames: ['bytes', 'org/other:1b'] });
  const entry = (name: string) => ({ name, model: name, digest, modified_at, size: 1000, details });
  assert.equal(await (await get('/api/tags')).json(), {
    models: [entry('bytes:latest'), entry('org/other:1b')],
  });
  const { get: early } = testApp({ model: () => undefined });
  assert.equal(await (await early('/api/tags')).json(), { models: [] });
});

test('ps has it while it is in memory', async () => {
  const { get, runner } = testApp();
  const names = { name: 'bytes:latest', model: 'bytes:latest' };
  const entry = { ...names, digest: digestOf('bytes'), size: 1500, details };
  assert.equal(await (await get('/api/ps')).json(), {
    models: [{ ...entry, size_vram: 0, context_length: 512 }],
  });
  runner.current = { ...runner.current, state: 'recovering' };
  assert.equal(await (await get('/api/ps')).json(), { models: [] });
});

test('show describes the model by any name, with or without the tag', async () => {
  const { post } = testApp({ model: () => ({ ...byteModel, quantKind: undefined }) });
  const { quantization_level: _, ...known } = details;
  for (const body of [{ model: 'bytes' }, { name: 'bytes:latest', verbose: true }]) {
    assert.equal(await (await post('/api/show', body)).json(), {
      modified_at,
      details: known,
      model_info: {
        'general.architecture': 'llama',
        'general.basename': 'bytes',
        'llama.context_length': 512,
        'llama.vocab_size': 258,
      },
      capabilities: ['completion', 'tools'],
    });
  }
  assert.is((await post('/api/show', { model: 'bytes:1b' })).status, 404);
  assert.match(await (await post('/api/show', {})).text(), 'model is required');
});

test('version is that of the program', async () => {
  const { get } = testApp();
  assert.match(
    ((await (await get('/api/version')).json()) as { version: string }).version,
    /^\d+\.\d+\.\d+$/,
  );
});

test('pull of a served model succeeds; pull of another explains what to do', async () => {
  const { post } = testApp();
  const streamed = await post('/api/pull', { model: 'bytes:latest', insecure: true });
  assert.is(streamed.headers.get('content-type'), 'application/x-ndjson');
  assert.is(await streamed.text(), '{"status":"success"}\n');
  assert.equal(await (await post('/api/pull', { name: 'bytes', stream: false })).json(), {
    status: 'success',
  });
  const absent = await post('/api/pull', { model: 'other' });
  assert.is(absent.status, 404);
  assert.match(
    ((await absent.json()) as { error: string }).error,
    'not found; models are not downloaded over HTTP. Run "runnel pull NAME"',
  );
  assert.match(await (await post('/api/pull', {})).text(), 'model is required');
});

test('show says that a model is for vectors whose file says how they are made', async () => {
  const { post } = testApp({ model: () => ({ ...byteModel, pooling: 'last' }) });
  const shown = (await (await post('/api/show', { model: 'bytes' })).json()) as { capabilities: string[] };
  assert.equal(shown.capabilities, ['completion', 'tools', 'embedding']);
});

test('unsupported model operations are refused with a sentence', async () => {
  const { post, app } = testApp();
  for (const [path, sentence] of [
    ['/api/push', 'Pushing models is not supported.'],
    ['/api/create', 'start the server with the file of the model'],
  ] as const) {
    const response = await post(path, { model: 'bytes' });
    assert.is(response.status, 501);
    assert.match(((await response.json()) as { error: string }).error, sentence);
  }
  assert.is((await app.request('/api/delete', { method: 'DELETE' })).status, 501);
  const nowhere = await post('/api/nowhere', {});
  assert.is(nowhere.status, 404);
  assert.equal(await nowhere.json(), { error: 'There is no POST /api/nowhere here.' });
});

test.run();
