import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { type Described, DocumentedAnswers } from '../fixtures/documented-answers.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until } from '../fixtures/within.ts';

/** Each route of a running server answers as its own /openapi.json says: whole answers, events and lines. */

const test = suite('answers and /openapi.json');

const DESCRIBED_TYPES = [
  'application/json',
  'text/event-stream',
  'application/x-ndjson',
  'application/octet-stream',
];

/** The job of the last answer that had one. */
let jobId = '';

const journal = join(temporaryFolder().path, 'journal');
const named = ['--served-model-name', 'smollm2', '--journal-dir', journal, '--playground', 'dev'];
const gateway = await Gateway.during(test, DEFAULT_MODEL, named);
const document = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as Described;
const answers = new DocumentedAnswers(document);

/** Makes a request, checks the answer against the document, and returns its text. */
async function ask(method: string, path: string, body?: object): Promise<string> {
  const isJson = body !== undefined && !(body instanceof FormData);
  const response = await fetch(gateway.url + path, {
    method,
    // On a busy machine the server may close an idle connection at the moment when it is used again.
    headers: { connection: 'close', ...(isJson ? { 'content-type': 'application/json' } : {}) },
    ...(body === undefined ? {} : { body: isJson ? JSON.stringify(body) : (body as FormData) }),
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  const text = bytes.toString('utf8');
  assert.ok(response.ok, `${method} ${path}: ${text}`);
  jobId = response.headers.get('x-runnel-job-id') ?? jobId;
  const type = response.headers.get('content-type') ?? '';
  const [bare = ''] = path.split('?');
  const checker = answers.checkerOf(method, bare, response.status, type);
  checker?.push(bytes);
  checker?.end();
  return text;
}

const model = 'smollm2';
const messages = [{ role: 'user', content: 'Hello' }];
const short = { temperature: 0, max_tokens: 4 };

test('every route answers as /openapi.json describes it', async () => {
  for (const path of [
    '/health',
    '/ready',
    '/ping',
    '/version',
    '/openapi.json',
    '/v1/models',
    '/v1/models/smollm2',
  ])
    await ask('GET', path);
  for (const path of ['/api/version', '/api/tags', '/api/ps', '/runner/crashes']) await ask('GET', path);

  const chat = { model, messages, ...short, logprobs: true, top_logprobs: 2, timings: true };
  const counted = { stream: true, stream_options: { include_usage: true } };
  await ask('POST', '/v1/chat/completions', chat);
  await ask('POST', '/v1/chat/completions', { ...chat, ...counted, n: 2 });
  const completion = { model, prompt: 'Once', ...short, logprobs: 2, echo: true };
  await ask('POST', '/v1/completions', completion);
  await ask('POST', '/v1/completions', { ...completion, ...counted });
  await ask('POST', '/v1/embeddings', { model, input: ['a', 'b'] });
  await ask('POST', '/v1/embeddings', { model, input: 'a', encoding_format: 'base64' });
  await ask('POST', '/v1/rerank', { model, query: 'a', documents: ['b', 'c'], return_documents: true });
  await ask('POST', '/v1/score', { model, text_1: 'a', text_2: ['b', 'c'] });

  const response = { model, input: 'Hello', max_output_tokens: 4, metadata: { a: 'b' } };
  const scored = { ...response, include: ['message.output_text.logprobs'], top_logprobs: 1 };
  await ask('POST', '/v1/responses', scored);
  await ask('POST', '/v1/responses', { ...scored, stream: true });
  const begun = JSON.parse(await ask('POST', '/v1/responses', { ...response, background: true }));
  await ask('GET', `/v1/responses/${begun.id}?stream=true`);
  await ask('GET', `/v1/responses/${begun.id}`);
  await ask('GET', `/v1/responses/${begun.id}/input_items`);
  await ask('POST', `/v1/responses/${begun.id}/cancel`);
  await ask('DELETE', `/v1/responses/${begun.id}`);

  const message = { model, messages, ...short };
  await ask('POST', '/v1/messages', message);
  await ask('POST', '/v1/messages', { ...message, stream: true });
  await ask('POST', '/v1/messages/count_tokens', { model, messages });

  const options = { num_predict: 4 };
  for (const stream of [true, false]) {
    await ask('POST', '/api/chat', { model, messages, options, stream });
    await ask('POST', '/api/generate', { model, prompt: 'Hello', options, stream });
    await ask('POST', '/api/pull', { model, stream });
  }
  await ask('POST', '/api/embed', { model, input: ['a', 'b'] });
  await ask('POST', '/api/embeddings', { model, prompt: 'a' });
  await ask('POST', '/api/show', { model });

  const job = { prompt: 'Once', max_tokens: 4, token_ids: true };
  await ask('POST', '/execute', { job_id: 'a', ...job, timings: true });
  await ask('POST', '/execute', { job_id: 'b', ...job, durable: true });
  await ask('GET', '/execute/b/events');
  await ask('GET', '/jobs/b/events');
  await ask('GET', '/jobs/b');
  await ask('DELETE', '/jobs/b');
  await ask('POST', '/api/generate', { model, prompt: 'Hello', options, durable: true });
  await ask('GET', `/jobs/${jobId}/events`);
  const long = { ...response, max_output_tokens: 2000, background: true };
  const { id: longId } = JSON.parse(await ask('POST', '/v1/responses', long));
  await ask('POST', `/jobs/${longId}/park`);
  await ask('POST', `/jobs/${longId}/resume`);
  await ask('POST', '/runner/park');
  await ask('POST', '/runner/resume', { model });
  await ask('DELETE', `/jobs/${longId}`);
  await ask('POST', '/cancel', { job_id: 'a' });
  await ask('POST', '/tokenize', { content: 'Hello' });
  await ask('POST', '/tokenize', { content: 'Hello ü🐈', with_pieces: true });
  await ask('POST', '/detokenize', { tokens: [1, 2] });
  await ask('POST', '/apply-template', { messages });

  const form = new FormData();
  const body = { model, prompt: 'Hello', ...short };
  const lines = Array.from({ length: 500 }, (_, index) =>
    JSON.stringify({ custom_id: `${index}`, method: 'POST', url: '/v1/completions', body }),
  ).join('\n');
  form.set('file', new Blob([lines]), 'lines.jsonl');
  form.set('purpose', 'batch');
  const file = JSON.parse(await ask('POST', '/v1/files', form));
  await ask('GET', '/v1/files');
  await ask('GET', `/v1/files/${file.id}`);
  assert.is(await ask('GET', `/v1/files/${file.id}/content`), lines);
  const asked = { input_file_id: file.id, endpoint: '/v1/completions', completion_window: '24h' };
  const batch = JSON.parse(await ask('POST', '/v1/batches', asked));
  await ask('GET', '/v1/batches');
  await ask('POST', `/v1/batches/${batch.id}/cancel`);
  await until(PATIENCE_MS, 'The end of the batch', async () =>
    (await ask('GET', `/v1/batches/${batch.id}`)).includes('"status":"cancelled"'),
  );
  await ask('DELETE', `/v1/files/${file.id}`);

  const { runner } = await gateway.health();
  await ask('POST', '/runner/kill', { pid: runner.pid });
  await gateway.healthWhere((health) => health.runner.pid !== runner.pid, 'The notice of the death');
  await gateway.healthWhere(({ status }) => status === 'healthy', 'Another runner');
  assert.match(await ask('GET', '/runner/crashes'), 'SIGKILL');
  await ask('POST', '/runner/restart');
  await ask('POST', '/runner/restart', { wait: true });

  const described = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, { responses }]) =>
      Object.entries(responses)
        .filter(([status]) => status.startsWith('2'))
        .flatMap(([, { content = {} }]) => Object.keys(content))
        .filter((type) => DESCRIBED_TYPES.includes(type))
        .map((type) => `${method.toUpperCase()} ${path} ${type}`),
    ),
  );
  assert.ok(described.length > 35);
  assert.equal([...answers.seen].sort(), [...new Set(described)].sort());
});

test.run();
