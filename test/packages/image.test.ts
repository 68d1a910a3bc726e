import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { ImageConfig } from '../../deploy/containerfile.ts';
import { childNamed, childrenOf } from '../fixtures/child-processes.ts';
import { TINY_MODEL } from '../fixtures/default-model.ts';
import { readEvents } from '../fixtures/sse.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { until, within } from '../fixtures/within.ts';

/** The image that `make image` has made: what is in it runs as its configuration says, in namespaces, as a container would. */

const test = suite('image');
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const START_MS = 120_000;
const folder = temporaryFolder();
const image = join(folder.path, 'image');
const root = join(folder.path, 'root');
// Thousands of files: a busy machine takes longer than a test may take to end.
test.after(() => void execFileSync('rm', ['-rf', root]));

const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
const architecture = execFileSync('dpkg', ['--print-architecture'], { encoding: 'utf8' }).trim();
const archive = join(ROOT, `build/dist/runnel-${version}-${architecture}.oci.tar`);

interface Descriptor {
  readonly digest: string;
  readonly size: number;
}

/** The content of a blob, which must have the size and the digest by which it is named. */
function blob({ digest, size }: Descriptor): Buffer {
  const content = readFileSync(join(image, 'blobs', digest.replace(':', '/')));
  assert.is(content.length, size);
  assert.is(`sha256:${createHash('sha256').update(content).digest('hex')}`, digest);
  return content;
}

const json = <Value>(descriptor: Descriptor) => JSON.parse(blob(descriptor).toString()) as Value;

interface About {
  readonly architecture: string;
  readonly created: string;
  readonly config: ImageConfig;
  readonly rootfs: { readonly diff_ids: readonly string[] };
}
let config: ImageConfig;
let created: string;

test('the archive is an image: each blob has its digest, and its layer is a root folder', () => {
  for (const path of [image, root]) mkdirSync(path);
  execFileSync('tar', ['-xf', archive, '-C', image]);
  assert.equal(JSON.parse(readFileSync(join(image, 'oci-layout'), 'utf8')), { imageLayoutVersion: '1.0.0' });
  const index = JSON.parse(readFileSync(join(image, 'index.json'), 'utf8'));
  const manifest = json<{ config: Descriptor; layers: [Descriptor] }>(index.manifests[0]);
  const about = json<About>(manifest.config);
  assert.is(about.architecture, architecture);
  const tar = execFileSync('gzip', ['-dc'], { input: blob(manifest.layers[0]), maxBuffer: 2 ** 30 });
  assert.equal(about.rootfs.diff_ids, [`sha256:${createHash('sha256').update(tar).digest('hex')}`]);
  execFileSync('tar', ['-xf', '-', '--numeric-owner', '-C', root], { input: tar });
  ({ config, created } = about);
  assert.is(config.User, '10001:10001');
  assert.ok('/models' in config.Volumes);
});

test('the same package gives the same bytes, at the time that is set', () => {
  const deb = join(ROOT, `build/dist/runnel_${version}_${architecture}.deb`);
  const args = ['--import', 'tsx', 'deploy/image.ts', '--package', deb, '--out', folder.path];
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(Date.parse(created) / 1000) };
  execFileSync(process.execPath, args, { cwd: ROOT, stdio: 'ignore', env });
  assert.ok(readFileSync(join(folder.path, basename(archive))).equals(readFileSync(archive)));
});

/** A script that runs its arguments as process 1 of the image's root folder. isAlone: with a network of its own. */
function container(isAlone = false): string {
  const path = join(folder.path, isAlone ? 'container-alone' : 'container');
  const models = dirname(TINY_MODEL);
  writeFileSync(
    path,
    `#!/bin/sh
exec unshare ${isAlone ? '--net' : ''} --mount --pid --fork --kill-child sh -c '
set -e
${isAlone ? 'ip link set lo up' : ''}
mount -t proc proc ${root}/proc
mount --bind /dev ${root}/dev
mount --bind -o ro ${models} ${root}/models
cd /
exec chroot --userspec=${config.User} ${root} env -i -C ${config.WorkingDir} ${config.Env.join(' ')} "$@"' sh "$@"
`,
  );
  chmodSync(path, 0o755);
  return path;
}

/** A gateway in the image, once it listens. */
async function start(script: string, args: readonly string[]) {
  const child = spawn(script, [...config.Entrypoint, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const listening = new Promise<string>((resolve) => {
    createInterface(child.stdout).on('line', (line) => {
      const url = /http:\/\/[\d.]+:\d+/.exec(line)?.[0];
      if (url !== undefined) resolve(url);
    });
  });
  try {
    const url = await within(START_MS, 'The gateway to listen', listening);
    return { child, ended, url };
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
}

test('it serves as a user without rights, goes on after a kill, and ends on SIGTERM', async () => {
  const args = ['serve', '--model', '/models/tiny-llama-q8_0.gguf', '--host', '127.0.0.1', '--port', '0'];
  const { child, ended, url } = await start(container(), args);
  try {
    await until(START_MS, 'The gateway to be ready', async () => (await fetch(`${url}/ready`)).ok);
    const [gateway] = childrenOf(child.pid) as [number];
    assert.match(readFileSync(`/proc/${gateway}/status`, 'utf8'), /^Uid:\s10001\s10001/m);
    assert.match(readFileSync(`/proc/${gateway}/status`, 'utf8'), /^NSpid:\s\d+\s1$/m, 'process 1');

    const runner = childNamed(gateway, 'cpu-runner');
    const body = {
      model: 'tiny-llama-q8_0',
      messages: [{ role: 'user', content: 'hello' }],
      max_tokens: 200,
      min_tokens: 200,
      stream: true,
    };
    const answer = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const data: string[] = [];
    for await (const event of readEvents(answer)) {
      if (data.push(event.data) === 1) process.kill(runner, 'SIGKILL');
    }
    assert.is(data.at(-1), '[DONE]');
    process.kill(gateway, 'SIGTERM');
    assert.is(await within(START_MS, 'The end', ended), 0);
  } finally {
    child.kill('SIGKILL');
  }
});

test('by its own command it listens where its health check asks, with keys; it is healthy without a model', async () => {
  const keys = join(root, 'run/runnel/api-keys');
  mkdirSync(dirname(keys), { recursive: true });
  writeFileSync(keys, 'a-key-of-this-test\n', { mode: 0o600 });
  const [user = 0, group = 0] = config.User.split(':').map(Number);
  chownSync(keys, user, group);
  const args = [...config.Cmd, '--model', '/models/absent.gguf'];
  const { child, ended, url } = await start(container(true), args);
  try {
    const [gateway] = childrenOf(child.pid) as [number];
    const beside = (command: readonly string[]) =>
      spawnSync('nsenter', [`--net=/proc/${gateway}/ns/net`, container(), ...command], { encoding: 'utf8' });
    const statusOf = (path: string) =>
      beside([
        'node',
        '-p',
        `fetch(${JSON.stringify(url + path)}).then((r) => r.status).then(console.log), ''`,
      ]);
    const [kind, ...check] = config.Healthcheck.Test;
    assert.is(kind, 'CMD');
    assert.is(beside(check).status, 0);
    assert.match(statusOf('/ready').stdout, /\b503\b/);
    assert.match(statusOf('/v1/models').stdout, /\b401\b/);
    process.kill(gateway, 'SIGTERM');
    assert.is(await within(START_MS, 'The end', ended), 0);
  } finally {
    child.kill('SIGKILL');
  }
});

test('doctor says that it computes on the CPU', () => {
  const command = [...config.Entrypoint, 'doctor', '--json', '--backend', 'cpu'];
  const said = JSON.parse(execFileSync(container(), command, { encoding: 'utf8' }));
  assert.equal([said.serves, said.cpu_runner.fault], ['cpu', null]);
  assert.not.match(said.cuda_runner.fault ?? '', /make/, 'there is no make here');
});

if (process.getuid?.() === 0) test.run();
else console.log('SKIPPED: only root can start processes in a root folder');
