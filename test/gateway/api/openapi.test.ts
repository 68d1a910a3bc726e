import { readFileSync, writeFileSync } from 'node:fs';
import { Validator } from '@seriousme/openapi-schema-validator';
import type { ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { bodyExamples } from '../../../gateway/api/body-examples.ts';
import { meanings } from '../../../gateway/api/components.ts';
import { openApiDocument } from '../../../gateway/api/openapi.ts';
import { routeGroups } from '../../../gateway/app.ts';
import { testApp } from '../../fixtures/app.ts';
import { EOS_ID } from '../../fixtures/byte-model.ts';
import { type Described as Answers, DocumentedAnswers } from '../../fixtures/documented-answers.ts';
import { API_PAGE, withTables } from './api-tables.ts';

const test = suite('openapi');

interface Body {
  readonly schema: object;
  readonly example: unknown;
}

interface Described {
  readonly parameters: readonly Member[];
  readonly requestBody?: { readonly content: Readonly<Record<string, Body>> };
  readonly responses: {
    readonly default: {
      readonly content: { readonly 'application/json': { readonly schema: { readonly $ref: string } } };
    };
  };
}

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
}

const file = { content: Buffer.from(''), type: 'text/html', etag: '"a"', isImmutable: false };
const page = new Map([
  ['/', file],
  ['/playground/main-A1.js', file],
]);
const { app, runner, get, post } = testApp({ playground: { page, killRunner: () => false } });

async function read(): Promise<Document> {
  return (await (await get('/openapi.json')).json()) as Document;
}

function bodyOf({ paths }: Document, path: string): Body & { readonly type: string } {
  const { content = {} } = paths[path]?.post?.requestBody ?? {};
  const [type, body] = Object.entries(content)[0] ?? [];
  if (type === undefined || body === undefined) throw new Error(`${path} has no body`);
  return { ...body, type };
}

/** Makes the check of a route's body by its schema, and by those that it refers to. */
function checksOf(document: Document): (path: string) => ValidateFunction {
  const ajv = new Ajv2020({ strict: false, formats: { binary: true } }).addSchema(document, 'document');
  return (path) => {
    const place = ['paths', path, 'post', 'requestBody', 'content', bodyOf(document, path).type, 'schema'];
    const check = ajv.getSchema(`document#/${place.map((each) => each.replaceAll('/', '~1')).join('/')}`);
    if (check === undefined) throw new Error(`the body of ${path} has no schema`);
    return check;
  };
}

const operations = routeGroups.flatMap((group) => group.operations);
/** Routes that only say what to do instead. */
const missing = operations.filter(({ answers }) => Object.keys(answers).length === 0);

test('the document is OpenAPI 3.1', async () => {
  const document = (await (await get('/openapi.json')).json()) as Record<string, unknown>;
  assert.match(String(document.openapi), /^3\.1\./);
  const { valid, errors } = await new Validator().validate(structuredClone(document));
  assert.equal([valid, errors], [true, undefined]);
  const broken = { ...document, paths: { execute: { post: {} } } };
  assert.is((await new Validator().validate(broken)).valid, false);
});

test('the routes that are described are those that there are, and a 501 is none', async () => {
  const { paths } = await read();
  const described = Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const registered = app.routes
    .filter(({ method }) => method !== 'ALL')
    .map(({ method, path }) => {
      const written = path
        .replace(/^\/playground\/.+/, '/playground/{name}')
        .replace(/:(\w+)(\{.*?\})?/g, '{$1}');
      return `${method} ${written}`;
    });
  const refusing = missing.map(({ method, path }) => `${method.toUpperCase()} ${path}`);
  assert.ok(refusing.length > 3);
  assert.equal([...described, ...refusing].sort(), [...new Set(registered)].sort());
  const withoutPage = (await (await testApp().get('/openapi.json')).json()) as Document;
  for (const path of ['/', '/runner/kill']) {
    assert.ok(paths[path], path);
    assert.is(withoutPage.paths[path], undefined, path);
  }
});

interface Member {
  readonly description?: unknown;
}

/** The members of all objects below a value, with their places. */
function membersIn(value: unknown, place: string): (readonly [place: string, member: Member])[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const own = key === 'properties' ? Object.entries(inner as Record<string, Member>) : [];
    const below = key === 'example' ? [] : membersIn(inner, `${place}/${key}`);
    return [...own.map(([name, member]) => [`${place}/${name}`, member] as const), ...below];
  });
}

test('every member of every schema has a description, and every entry of their table describes one', async () => {
  const document = await read();
  const all = membersIn(document, '');
  assert.ok(all.length > 1500);
  const described = new Set<unknown>();
  for (const [place, { description }] of all) {
    assert.match(
      String(description),
      /\.$/,
      `${place} has the description ${description}: see gateway/api/meanings`,
    );
    described.add(description);
  }
  for (const { parameters } of Object.values(document.paths).flatMap(Object.values))
    for (const each of parameters) if (!('$ref' in each)) described.add(each.description);
  for (const [key, meaning] of Object.entries(meanings))
    assert.ok(described.has(meaning), `nothing has the meaning of ${key}`);
});

test('the tables of docs/api.md are those of the schemas', () => {
  const page = readFileSync(API_PAGE, 'utf8');
  const made = withTables(page);
  assert.ok(made.split('<!-- table: ').length > 12);
  if (process.env.RUNNEL_TEST_RECORD === '1') writeFileSync(API_PAGE, made);
  else assert.ok(page === made, 'RUNNEL_TEST_RECORD=1 writes them anew, and git diff shows how they differ');
});

test('every body has an example that its schemas take', async () => {
  const document = await read();
  const checkOf = checksOf(document);
  const withBody = operations.filter(({ body }) => body !== undefined);
  for (const { path, body } of withBody) {
    const { example } = bodyOf(document, path);
    assert.equal(body?.safeParse(example).error?.issues ?? [], [], path);
    const validate = checkOf(path);
    assert.ok(validate(example), `${path}: ${JSON.stringify(validate.errors)}`);
  }
  assert.equal(Object.keys(bodyExamples).sort(), withBody.map(({ path }) => path).sort());
});

test('the errors of each API are as its schema has them', async () => {
  const document = await read();
  const asked: Record<string, object> = {
    '/execute': {},
    '/tokenize': { content: 1 },
    '/runner/kill': { pid: 1 },
    '/v1/chat/completions': {},
    '/v1/completions': { model: 'x', prompt: 'a' },
    '/v1/messages': {},
    '/v1/messages/count_tokens': { model: 'x', messages: [] },
    '/api/chat': {},
    '/api/pull': {},
  };
  for (const [path, body] of Object.entries(asked)) {
    const response = await post(path, body);
    assert.ok(response.status >= 400, path);
    const { $ref } = document.paths[path]?.post?.responses.default.content['application/json'].schema ?? {
      $ref: '',
    };
    const schema = document.components.schemas[$ref.split('/').at(-1) ?? ''];
    assert.ok(schema, $ref);
    const validate = new Ajv2020({ strict: false }).compile(schema);
    assert.ok(validate(await response.json()), `${path}: ${JSON.stringify(validate.errors)}`);
  }
});

const messages = [{ role: 'user', content: 'a' }];
const parts = [{ role: 'user', content: [{ type: 'text', text: 'a' }] }];

test('a body passes its schema as it passes the server', async () => {
  const checkOf = checksOf(await read());
  const bodies: readonly (readonly [path: string, body: object, isGood: boolean])[] = [
    ['/execute', { job_id: 'a', prompt: 'a', stop: ['b'], seed: -1, min_p: 0.5 }, true],
    ['/execute', { job_id: 'a', prompt_ids: [1] }, true],
    ['/execute', { job_id: 'a', prompt: 'a', prompt_ids: [1] }, false],
    ['/execute', { job_id: 'a', prompt: 'a', max_tokens: 2049 }, false],
    ['/execute', { job_id: 'a', prompt: 'a', repetition_penalty: 0 }, false],
    ['/execute', { prompt: 'a' }, false],
    ['/v1/chat/completions', { model: 'bytes', messages, top_k: -1, max_tokens: -1, stop: 'a' }, true],
    ['/v1/chat/completions', { model: 'bytes', messages: parts, logit_bias: { 1: 5 }, n: 2 }, true],
    ['/v1/chat/completions', { model: 'bytes', messages, n: 9 }, false],
    ['/v1/chat/completions', { model: 'bytes', messages: [{ role: 'nobody', content: 'a' }] }, false],
    ['/v1/chat/completions', { model: 'bytes', messages, nonsense: 1 }, false],
    ['/v1/completions', { model: 'bytes', prompt: ['a', 'b'], user: 'x', echo: true }, true],
    ['/v1/completions', { model: 'bytes', prompt: [[1], [2, 3]], store: false }, true],
    ['/v1/completions', { model: 'bytes', prompt: { a: 1 } }, false],
    ['/v1/completions', { model: 'bytes', prompt: 'a', use_beam_search: true }, false],
    ['/v1/completions', { model: 'bytes' }, false],
    ['/v1/messages', { model: 'bytes', max_tokens: 3, messages: parts, system: 'a' }, true],
    ['/v1/messages', { model: 'bytes', messages }, false],
    ['/api/chat', { model: 'bytes', messages, options: { num_predict: -2, stop: 'a' } }, true],
    ['/api/chat', { model: 'bytes', messages, options: { temperature: 3 } }, false],
    ['/api/generate', { model: 'bytes', prompt: 'a', keep_alive: '5m' }, true],
    ['/api/show', { name: 'bytes' }, true],
    ['/api/show', {}, false],
    ['/tokenize', { content: 'a', with_pieces: true }, true],
    ['/detokenize', { tokens: [1] }, true],
    ['/detokenize', {}, false],
    ['/cancel', { job_id: 'a' }, true],
    ['/runner/restart', { wait: true }, true],
  ];
  for (const [path, body, isGood] of bodies) {
    const name = `${path} ${JSON.stringify(body)}`;
    const validate = checkOf(path);
    assert.is(validate(body), isGood, `${name}: ${JSON.stringify(validate.errors)}`);
    runner.script = [[EOS_ID]];
    const response = await post(path, body);
    await response.text();
    const { status } = response;
    assert.is(status < 400, isGood, `${name}: ${status}`);
  }
});

test('fields that a body must have are required by its schema', async () => {
  const document = await read();
  let numRequired = 0;
  for (const { path, body } of operations) {
    if (body === undefined) continue;
    // The issue of a body with two forms has no path.
    const issues = body.safeParse({}).error?.issues.filter((issue) => issue.path.length > 0) ?? [];
    const missing = issues.map((issue) => String(issue.path[0]));
    const required = JSON.stringify(bodyOf(document, path).schema).match(/"required":\[[^\]]*\]/g) ?? [];
    for (const name of new Set(missing)) assert.ok(required.join().includes(`"${name}"`), `${path}: ${name}`);
    numRequired += missing.length;
  }
  assert.ok(numRequired > 12);
});

/** watch-answers.ts checks the answers of all test applications against the document. This test checks that it finds errors. */
test('an answer with a member that is not described, without one that is, or of another type, is found', () => {
  const answers = new DocumentedAnswers(openApiDocument(routeGroups) as Answers);
  const fault = (path: string, type: string, text: string, method = 'POST'): string => {
    try {
      const checker = answers.checkerOf(method, path, 200, type);
      checker?.push(Buffer.from(text));
      checker?.end();
      return checker === undefined ? 'nobody looks' : '';
    } catch (error) {
      return (error as Error).message;
    }
  };
  assert.is(fault('/detokenize', 'application/json', '{"content":"a"}'), '');
  assert.match(fault('/detokenize', 'application/json', '{"content":"a","more":1}'), '"more"');
  assert.match(fault('/detokenize', 'application/json', '{}'), "'content'");
  // Of this one the document has a component.
  const deleted = (more: object) => JSON.stringify({ id: 'a', object: 'response', deleted: true, ...more });
  const response = ['/v1/responses/a', 'application/json'] as const;
  assert.is(fault(...response, deleted({}), 'DELETE'), '');
  assert.match(fault(...response, deleted({ more: 1 }), 'DELETE'), '"more"');
  assert.match(fault('/detokenize', 'text/csv', 'a'), 'has no answer 200 of text/csv');
  const event = (data: string) => `event: token\ndata: ${data}\n\n`;
  assert.is(fault('/execute', 'text/event-stream', event('{"t":"a","i":0}')), '');
  assert.match(fault('/execute', 'text/event-stream', event('{"t":"a"}')), "'i'");
  assert.match(fault('/execute', 'text/event-stream', 'event: other\ndata: {}\n\n'), 'no event other');
  assert.match(fault('/api/generate', 'application/x-ndjson', '{"done":false}\n'), 'not as it is described');
});

test.run();
