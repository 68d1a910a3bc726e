import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { UsageError } from '../../../../gateway/errors/exit-code.ts';
import { type HubOptions, pullFromHub } from '../../../../gateway/models/hub/pull-from-hub.ts';
import { listModels, resolveModel } from '../../../../gateway/models/model-cache.ts';
import { PullError } from '../../../../gateway/models/pull-report.ts';
import { errorOf } from '../../../fixtures/errors.ts';
import { COMMIT, FakeHub, sha256 } from '../../../fixtures/fake-hub.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';
import { PATIENCE_MS, until } from '../../../fixtures/within.ts';

const test = suite<{ hub: FakeHub; cache: string }>('pull from a hub');
const folder = temporaryFolder();
const NAME = 'hf:owner/repo/model.gguf';
const content = Buffer.from('the model '.repeat(100_000));
const limits = { maxVainAttempts: 3, firstDelayMs: 1, stallTimeoutMs: PATIENCE_MS };
let output = '';
let runs = 0;

test.before.each(async (context) => {
  context.hub = await FakeHub.start(content);
  context.cache = join(folder.path, `hub-${runs++}`);
  process.env.HF_HUB_CACHE = context.cache;
  process.env.RUNNEL_CACHE = join(context.cache, 'runnel');
  output = '';
});
test.after.each(({ hub }) => hub.stop());

function pull(hub: FakeHub, change: Partial<HubOptions> = {}, name = NAME): Promise<string> {
  const log = { write: (text: string) => (output += text) };
  return pullFromHub(name, { endpoint: hub.url, token: undefined, output: log, limits, ...change });
}

async function faultOf(hub: FakeHub, change: Partial<HubOptions> = {}): Promise<PullError> {
  const error = await errorOf(() => pull(hub, change));
  assert.instance(error, PullError, error.stack ?? '');
  assert.match(error.message, /\.$/);
  assert.throws(() => resolveModel(NAME), /has not been fetched yet/);
  return error as PullError;
}

function partPath(cache: string, bytes: Buffer = content): string {
  return join(cache, 'models--owner--repo/blobs', `${sha256(bytes)}.runnel-part`);
}

test('a file lands in the cache of the hub’s own tools, is found by its name, and is quick the second time', async ({
  hub,
  cache,
}) => {
  assert.throws(() => resolveModel(NAME), 'run `npx runnel pull hf:owner/repo/model.gguf` first');
  assert.equal(listModels(), []);
  const path = await pull(hub);
  const repo = join(cache, 'models--owner--repo');
  assert.is(path, join(repo, 'snapshots', COMMIT, 'model.gguf'));
  assert.is(readlinkSync(path), `../../blobs/${sha256(content)}`);
  assert.ok(readFileSync(path).equals(content));
  assert.is(readFileSync(join(repo, 'refs/main'), 'utf8'), COMMIT);
  assert.equal(readdirSync(join(repo, 'blobs')), [sha256(content)]);
  assert.match(output, 'Downloading hf:owner/repo/model.gguf: 100 %');
  assert.is(resolveModel(NAME), path);
  assert.equal(listModels(), [{ name: NAME, bytes: content.length, path }]);

  output = '';
  assert.is(await pull(hub), path);
  assert.is(output, `${NAME} is already there.\n`);
  assert.is(hub.storeAsked.length, 1);
});

test('a file in a folder keeps it', async ({ hub, cache }) => {
  const path = await pull(hub, {}, 'hf:owner/repo/sub/model.gguf');
  assert.is(path, join(cache, 'models--owner--repo/snapshots', COMMIT, 'sub/model.gguf'));
  assert.is(readlinkSync(path), `../../../blobs/${sha256(content)}`);
  assert.ok(readFileSync(path).equals(content));
});

test('a connection that breaks is taken up where it broke', async ({ hub }) => {
  hub.cuts = [100_000, 300_000, 1];
  assert.ok(readFileSync(await pull(hub)).equals(content));
  const [first, ...later] = hub.storeAsked;
  assert.is(first?.range, undefined);
  assert.is(later.length, 3);
  for (const { range, ifRange } of later) {
    assert.match(range ?? '', /^bytes=[1-9]\d*-$/);
    assert.is(ifRange, '"store-1"');
  }
});

test('another run resumes where the last one ended', async ({ hub, cache }) => {
  hub.cuts = [400_000];
  const error = await faultOf(hub, { limits: { ...limits, maxVainAttempts: 1 } });
  assert.is(error.exitCode, 69);
  assert.match(error.message, `of ${content.length} bytes`);
  const kept = readFileSync(partPath(cache)).length;
  assert.ok(kept > 0);
  assert.ok(readFileSync(await pull(hub)).equals(content));
  assert.is(hub.storeAsked.at(-1)?.range, `bytes=${kept}-`);
  assert.not(existsSync(partPath(cache)));
});

test('a store with other bytes now begins anew, by its ETag', async ({ hub }) => {
  hub.cuts = [400_000];
  await faultOf(hub, { limits: { ...limits, maxVainAttempts: 1 } });
  hub.storeEtag = '"store-2"';
  assert.ok(readFileSync(await pull(hub)).equals(content));
  assert.is(hub.storeAsked.at(-1)?.ifRange, '"store-1"');
});

test('a store that knows no ranges, or gives no strong ETag, begins anew', async ({ hub, cache }) => {
  hub.cuts = [400_000];
  hub.ignoresRange = true;
  assert.ok(readFileSync(await pull(hub)).equals(content));
  for (const etag of [undefined, 'W/"weak"']) {
    rmSync(cache, { recursive: true });
    hub.storeAsked.length = 0;
    hub.storeEtag = etag;
    hub.cuts = [400_000];
    assert.ok(readFileSync(await pull(hub)).equals(content));
    assert.equal(
      hub.storeAsked.map(({ range }) => range),
      [undefined, undefined],
    );
  }
});

test('416 and a range that was not asked for begin anew', async ({ hub, cache }) => {
  hub.cuts = [400_000];
  await faultOf(hub, { limits: { ...limits, maxVainAttempts: 1 } });
  hub.storeStatuses = [416];
  assert.ok(readFileSync(await pull(hub)).equals(content));
  assert.is(hub.storeAsked.at(-1)?.range, undefined);
  assert.not(existsSync(partPath(cache)));

  rmSync(cache, { recursive: true });
  hub.cuts = [400_000];
  await faultOf(hub, { limits: { ...limits, maxVainAttempts: 1 } });
  hub.rangeShift = 100;
  assert.ok(readFileSync(await pull(hub)).equals(content));
});

test('a whole part that was not named yet needs no byte more', async ({ hub, cache }) => {
  mkdirSync(dirname(partPath(cache)), { recursive: true });
  writeFileSync(partPath(cache), content);
  assert.ok(readFileSync(await pull(hub)).equals(content));
  assert.is(hub.storeAsked.length, 0);
});

test('other bytes than were promised are refused and removed', async ({ hub, cache }) => {
  hub.promisedSha256 = sha256(Buffer.from('something else'));
  const error = await faultOf(hub);
  assert.is(error.exitCode, 65);
  assert.match(error.message, sha256(content));
  assert.match(error.message, hub.promisedSha256);
  assert.equal(readdirSync(join(cache, 'models--owner--repo/blobs')), []);

  // A partial file was tampered with: the bytes that follow are right, but the whole file is not.
  hub.promisedSha256 = undefined;
  hub.cuts = [400_000];
  await faultOf(hub, { limits: { ...limits, maxVainAttempts: 1 } });
  const part = readFileSync(partPath(cache));
  part[0] = 0;
  writeFileSync(partPath(cache), part);
  assert.is((await faultOf(hub)).exitCode, 65);
  assert.ok(readFileSync(await pull(hub)).equals(content), 'the next run begins anew');
});

test('a store that is busy for a moment is asked again, one that never gives a byte is not for ever', async ({
  hub,
}) => {
  hub.storeStatuses = [503, 429];
  assert.ok(readFileSync(await pull(hub)).equals(content));
  rmSync(process.env.HF_HUB_CACHE as string, { recursive: true });
  hub.storeAsked.length = 0;
  hub.storeStatuses = Array.from({ length: 10 }, () => 500);
  const error = await faultOf(hub);
  assert.is(error.exitCode, 69);
  assert.match(error.message, 'failed 3 times without a byte');
  assert.is(hub.storeAsked.length, 3);
});

test('a store that stalls is given up and asked again', async ({ hub }) => {
  hub.stallAfter = 1000;
  const pulled = pull(hub, { limits: { ...limits, maxVainAttempts: 10, stallTimeoutMs: 50 } });
  pulled.catch(() => {});
  await until(PATIENCE_MS, 'Another request', () => hub.storeAsked.length > 1);
  hub.stallAfter = undefined;
  assert.ok(readFileSync(await pulled).equals(content));
});

test('the token goes to the hub and to no other host', async ({ hub }) => {
  hub.renamedTo = 'renamed';
  await pull(hub, { token: 'hf_canary' });
  assert.ok(hub.hubAsked.length >= 4);
  for (const { authorization } of hub.hubAsked) assert.is(authorization, 'Bearer hf_canary');
  assert.is(hub.storeAsked.length, 1);
  for (const { authorization } of hub.storeAsked) assert.is(authorization, undefined);
});

test('a refusal by the hub is reported with a remedy and without the token', async ({ hub }) => {
  const cases: [number, string | undefined, number, string][] = [
    [404, undefined, 66, 'has no hf:owner/repo/model.gguf'],
    [401, undefined, 69, 'set HF_TOKEN'],
    [403, 'hf_canary', 69, 'the token in HF_TOKEN may not read it'],
    [400, undefined, 69, 'answers 400'],
    [503, undefined, 69, 'answers 503'],
  ];
  for (const [status, token, exitCode, text] of cases) {
    hub.hubStatus = status;
    const error = await faultOf(hub, { token });
    assert.is(error.exitCode, exitCode, error.message);
    assert.match(error.message, text);
    assert.not.match(error.message, 'hf_canary');
  }
  const gone = await FakeHub.start(content);
  const endpoint = gone.url;
  await gone.stop();
  const error = await faultOf(hub, { endpoint });
  assert.is(error.exitCode, 69);
  assert.match(error.message, `${new URL(endpoint).host} does not answer`);
});

test('a hub that says no hash, no size or no commit is not believed', async ({ hub }) => {
  hub.promisedSha256 = 'a'.repeat(40);
  assert.is((await faultOf(hub)).exitCode, 65);
  hub.promisedSha256 = '../../../../tmp/x';
  assert.is((await faultOf(hub)).exitCode, 65);
  hub.promisedSha256 = undefined;
  hub.commit = '../../../escape';
  assert.is((await faultOf(hub)).exitCode, 69);
  hub.commit = COMMIT;
  hub.content = Buffer.alloc(0);
  assert.is((await faultOf(hub)).exitCode, 65);
});

test('redirects without end, or to no protocol of the web, are not followed', async ({ hub }) => {
  hub.redirect = `${hub.url}/owner/repo/resolve/main/model.gguf`;
  assert.match((await faultOf(hub)).message, 'redirects more than 5 times');
  hub.redirect = 'file:///etc/passwd';
  assert.match((await faultOf(hub)).message, 'redirects from');
});

test('paths: a name cannot lead anywhere but into its repository’s folder', async ({ hub, cache }) => {
  const wrong = [
    'hf:',
    'hf:model.gguf',
    'hf:owner/model.gguf',
    'hf:owner/repo/',
    'hf:owner/repo/model.bin',
    'hf:../repo/model.gguf',
    'hf:owner/../model.gguf',
    'hf:owner/repo/../../model.gguf',
    'hf:owner/repo/sub/../model.gguf',
    'hf:owner/repo/.hidden.gguf',
    'hf:owner/repo/a..b.gguf',
    'hf:owner//model.gguf',
    'hf:owner/repo//model.gguf',
    'hf:owner/repo/%2e%2e/model.gguf',
    'hf:owner/repo\\..\\model.gguf',
    'hf:owner/repo/mod el.gguf',
    'hf:owner/repo/model.gguf?x.gguf',
    'hf:owner/repo/mödel.gguf',
    'hf:/etc/passwd.gguf',
    `hf:owner/repo/${'x'.repeat(92)}.gguf`,
    `hf:owner/repo/${'a/'.repeat(9)}model.gguf`,
  ];
  for (const name of wrong) {
    const error = await errorOf(() => pull(hub, {}, name));
    assert.instance(error, UsageError, name);
    assert.instance(await errorOf(() => resolveModel(name)), UsageError, name);
  }
  assert.is(hub.hubAsked.length, 0);
  assert.not(existsSync(cache));
});

test('a link in the cache that leads out of it is not followed', async ({ hub }) => {
  const path = await pull(hub);
  rmSync(path);
  symlinkSync('/etc/hostname', path);
  assert.throws(() => resolveModel(NAME), /has not been fetched yet/);
  assert.equal(listModels(), []);
});

test('an invalid commit in the cache is not followed', async ({ hub, cache }) => {
  await pull(hub);
  writeFileSync(join(cache, 'models--owner--repo/refs/main'), '../../..');
  assert.throws(() => resolveModel(NAME), /has not been fetched yet/);
});

test('two at once fetch once', async ({ hub }) => {
  const paths = await Promise.all([pull(hub), pull(hub)]);
  assert.is(paths[0], paths[1]);
  assert.is(hub.storeAsked.length, 1);
  assert.match(output, `Process ${process.pid} is fetching ${NAME}; waiting for it.`);
});

test('a newer commit is fetched beside the older one', async ({ hub }) => {
  const older = await pull(hub);
  hub.content = Buffer.from('another model');
  hub.commit = 'f'.repeat(40);
  const newer = await pull(hub);
  assert.is(resolveModel(NAME), newer);
  assert.ok(readFileSync(older).equals(content));
  assert.is(readFileSync(newer, 'utf8'), 'another model');
});

test('an invalid address is refused', async ({ hub }) => {
  for (const endpoint of ['', 'huggingface.co', 'ftp://huggingface.co', 'http://']) {
    assert.instance(await errorOf(() => pull(hub, { endpoint })), UsageError, endpoint);
  }
});

test.run();
