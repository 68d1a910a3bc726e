import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { pacedRunner, TINY_MODEL } from '../../../fixtures/default-model.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';
import { until, within } from '../../../fixtures/within.ts';

const test = suite('batch');

const PATIENCE_MS = 120_000;
const DAY_MS = 24 * 3_600_000;
const folder = temporaryFolder();
const env = { XDG_RUNTIME_DIR: folder.path };
const MODEL = basename(TINY_MODEL, '.gguf');

const children: ChildProcess[] = [];
test.after(() => {
  for (const child of children) child.kill('SIGKILL');
});

function begin(...args: string[]) {
  const child = spawn('node', ['gateway/runnel.js', 'batch', ...args], { env: { ...process.env, ...env } });
  children.push(child);
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const closed = once(child, 'close');
  return {
    child,
    ended: async () => {
      const [exitCode] = await within(PATIENCE_MS, 'The end of batch', closed);
      return { exitCode, stderr };
    },
  };
}

/** A file of requests, and where its answers come. */
function inputOf(name: string, numLines: number, more: (index: number) => object = () => ({})) {
  const lines = Array.from({ length: numLines }, (_, index) => {
    const body = { model: MODEL, prompt: 'Once upon', seed: index, max_tokens: 20, min_tokens: 20 };
    const line = { custom_id: `${index}`, method: 'POST', url: '/v1/completions', body };
    return `${JSON.stringify({ ...line, body: { ...body, ...more(index) } })}\n`;
  });
  const file = folder.write(`${name}.jsonl`, lines.join(''));
  return {
    file,
    output: join(folder.path, `${name}.output.jsonl`),
    errors: join(folder.path, `${name}.errors.jsonl`),
  };
}

function textsIn(path: string): unknown[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line))
    .map(({ custom_id, response }) => [
      custom_id,
      response.body.choices?.[0].text ?? response.body.error.code,
    ]);
}

test('a file is answered, refused lines are in a file of their own, and nothing else is left', async () => {
  const { file, output, errors } = inputOf('plain', 6, (index) => (index === 2 ? { temperature: 9 } : {}));
  const { exitCode, stderr } = await begin(file, '--model', TINY_MODEL).ended();
  assert.is(exitCode, 0, stderr);
  assert.is(stderr, `runnel: 5 of 6 lines are answered in ${output}, 1 have none: ${errors} says why.\n`);
  assert.equal(
    textsIn(output).map((line) => (line as string[])[0]),
    ['0', '1', '3', '4', '5'],
  );
  assert.equal(textsIn(errors), [['2', 'invalid_request']]);
  assert.not.ok(existsSync(`${output}.batch`));
  const again = await begin(file, '--model', TINY_MODEL).ended();
  assert.equal(
    [again.exitCode, again.stderr],
    [64, `runnel: ${output} is there already: remove it, or name another file.\n`],
  );
});

test('the same command goes on after a kill, days later, too, with the answers of a run that was not killed', async () => {
  const whole = inputOf('whole', 40);
  const flags = ['--model', TINY_MODEL, '--', '--threads', '1', '--batch-open-lines', '4'];
  assert.is((await begin(whole.file, ...flags).ended()).exitCode, 0);
  const { file, output } = inputOf('killed', 40);
  const results = join(`${output}.batch`, 'journal-batches', 'batches');
  const killed = begin(file, ...flags, '--runner', pacedRunner(5));
  await until(PATIENCE_MS, 'Some results', () => numResults(results) >= 10);
  killed.child.kill('SIGKILL');
  await killed.ended();
  assert.not.ok(existsSync(output));

  // Another content does not get the answers of this one.
  const asked = readFileSync(file);
  writeFileSync(file, `${asked}\n`);
  const other = await begin(file, ...flags).ended();
  assert.is(other.exitCode, 64);
  assert.match(other.stderr, /has the answers to another content of .*killed.jsonl: name another --output/);
  writeFileSync(file, asked);

  // Days later.
  for (const name of readdirSync(results).filter((each) => each.endsWith('.json'))) {
    const record = JSON.parse(readFileSync(join(results, name), 'utf8'));
    writeFileSync(
      join(results, name),
      JSON.stringify({ ...record, createdMs: record.createdMs - 30 * DAY_MS }),
    );
  }
  const { exitCode, stderr } = await begin(file, ...flags).ended();
  assert.is(exitCode, 0, stderr);
  assert.equal(textsIn(output), textsIn(whole.output));
});

/** The results of the batch in this folder so far. */
function numResults(path: string): number {
  const names = existsSync(path) ? readdirSync(path) : [];
  const name = names.find((each) => each.endsWith('.results'));
  return name === undefined ? 0 : readFileSync(join(path, name), 'utf8').split('\n').length - 1;
}

test('a file that is no batch is refused with its lines, and leaves nothing', async () => {
  const file = folder.write('bad.jsonl', '{"custom_id": "a"}\nnonsense\n');
  const { exitCode, stderr } = await begin(file, '--model', TINY_MODEL).ended();
  assert.is(exitCode, 64);
  assert.match(
    stderr,
    /^runnel: Line 1: method is missing: it is "POST"\.\nrunnel: Line 2: it is not valid JSON/,
  );
  assert.not.ok(existsSync(join(folder.path, 'bad.output.jsonl.batch')));
  const missing = await begin(join(folder.path, 'none.jsonl'), '--model', TINY_MODEL).ended();
  assert.is(missing.exitCode, 66);
  const refused = await begin(file, '--model', TINY_MODEL, '--', '--journal-dir', 'x').ended();
  assert.equal(
    [refused.exitCode, refused.stderr],
    [64, 'runnel: batch sets --journal-dir of its server by itself: leave it out.\n'],
  );
  const one = join(folder.path, 'one.jsonl');
  const same = await begin(
    file,
    '--model',
    TINY_MODEL,
    '--output',
    one,
    '--errors',
    `./${relative('.', one)}`,
  ).ended();
  assert.is(same.exitCode, 64);
  assert.match(same.stderr, /^runnel: --output and --errors are both .*one.jsonl: name two files\.\n$/);
});

test.run();
