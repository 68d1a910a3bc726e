/** Embedding requests beside generation requests, over runners that die. */
import * as assert from 'uvu/assert';
import { embeddingRequest } from '../../../../gateway/generation/embeddings.ts';
import { Readings } from '../../../../gateway/generation/readings.ts';
import {
  type GenerateRequest,
  GenerationError,
  type Runner,
  type TokenBatch,
} from '../../../../gateway/runner/runner.ts';
import { closingSuite } from '../../../fixtures/closing-suite.ts';
import { fakeEmbedding, fakeModelIdentity } from '../../../fixtures/fake-tokens.ts';
import {
  collectExact,
  patienceMs,
  ready,
  requestOf,
  temporaryDirectory,
} from '../../../fixtures/supervised.ts';
import { until, within } from '../../../fixtures/within.ts';

const test = closingSuite('vectors');

const poisonId = 7;

function embeddingOf(promptIds: readonly number[]): GenerateRequest {
  const cacheSalt = new Uint8Array();
  return embeddingRequest({ promptIds, modelIdentity: fakeModelIdentity, cacheSalt, pooling: 'mean' });
}

const vectorOf = ({ embedding }: TokenBatch): Float32Array | undefined => embedding;

async function vectorsOf(runner: Runner, texts: readonly (readonly number[])[]): Promise<number[][]> {
  const embeddings = new Readings(runner, texts.map(embeddingOf), vectorOf);
  const vectors = await within(patienceMs, 'the vectors', embeddings.answer);
  return vectors.map((vector) => [...vector]);
}

test('an embedding whose runner dies is computed by the next runner', async () => {
  const directory = temporaryDirectory();
  const flags = ['--crash-at', 'embedding', '--crash-file', directory.write('once', '')];
  const { supervisor, eventsOf } = await ready(flags);
  const texts = [[1, 2, 3], [4], [5, 6]];
  const stream = collectExact(supervisor, requestOf([9], 200));
  assert.equal(await vectorsOf(supervisor, texts), texts.map(fakeEmbedding));
  await stream;
  assert.is(eventsOf('runner_exited').length, 1);
  assert.is(supervisor.status().openRequests, 0);
});

test('a text that kills its runner twice is quarantined, and the others get their vectors', async () => {
  const { supervisor, state, eventsOf } = await ready(['--poison', String(poisonId)]);
  const innocents = [[1], [2, 3]];
  const poisoned = vectorsOf(supervisor, [[poisonId, 1]]).then(
    () => undefined,
    (error: unknown) => error,
  );
  assert.equal(await vectorsOf(supervisor, innocents), innocents.map(fakeEmbedding));
  const error = await poisoned;
  assert.instance(error, GenerationError);
  assert.is((error as GenerationError).code, 'RUNNER_CRASHED');
  assert.is(eventsOf('request_quarantined').length, 1);
  // The same embedding request is refused at once. A generation request with the same ids is another request.
  assert.throws(
    () => new Readings(supervisor, [embeddingOf([poisonId, 1])], vectorOf),
    /do not send it again/,
  );
  await state('ready');
  assert.equal(await vectorsOf(supervisor, [[8]]), [fakeEmbedding([8])]);
});

test('a vector that nobody waits for any more is taken back from the runner', async () => {
  const { supervisor } = await ready(['--delay-ms', '50']);
  const embeddings = new Readings(supervisor, [[1], [2]].map(embeddingOf), vectorOf);
  assert.is(supervisor.status().openRequests, 2);
  embeddings.cancel();
  await until(patienceMs, 'no request', () => supervisor.status().openRequests === 0);
  assert.equal(await vectorsOf(supervisor, [[3]]), [fakeEmbedding([3])]);
});

test.run();
