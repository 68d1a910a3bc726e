import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { RunnerInfo } from '../../../../gateway/runner/runner.ts';
import {
  type CacheSize,
  type LaunchedModel,
  type RunnerLauncher,
  specOf,
} from '../../../../gateway/runner/supervision/runner-spec.ts';

const test = suite('runner spec');

/** A spec whose commands have the cache that the launcher was asked for as their only argument. */
function specWith(planned?: CacheSize) {
  const current = { architecture: 'llama', contextLength: 9, file: 'first', device: 0n };
  const slot: LaunchedModel = {
    path: '/m.gguf',
    current,
    refresh: async () => {},
    identity: async () => '',
  };
  const launch: RunnerLauncher = {
    command: (_, cache) => ({
      file: 'runner',
      args: [cache === undefined ? 'none' : `${cache.kind} ${cache.numBlocks}`],
    }),
    fallback: () => launch,
  };
  const spec = specOf(slot, launch, { onRead: () => {}, onReady: () => {} }, planned);
  const readyWith = (numBlocks: number) => spec.onReady({ kind: 'cpu', numBlocks } as RunnerInfo);
  const cacheOf = ({ command } = spec) => command().args[0];
  return { current, spec, readyWith, cacheOf };
}

test('the first runner chooses its cache, and those that follow it have the same', () => {
  const { cacheOf, readyWith } = specWith();
  assert.is(cacheOf(), 'none');
  readyWith(40);
  assert.is(cacheOf(), 'cpu 40');
  assert.is(cacheOf(), 'cpu 40');
});

test('a runner of a changed file chooses anew', () => {
  const { current, cacheOf, readyWith } = specWith();
  readyWith(40);
  current.file = 'second';
  assert.is(cacheOf(), 'none');
  readyWith(30);
  assert.is(cacheOf(), 'cpu 30');
});

test('a planned cache is that of the first runner, and of the runner that falls back', () => {
  const { spec, cacheOf } = specWith({ kind: 'cpu', numBlocks: 50 });
  assert.is(cacheOf(), 'cpu 50');
  const failure = { reason: '', death: {} } as Parameters<typeof spec.fallback>[0];
  assert.is(cacheOf(spec.fallback(failure) as typeof spec), 'cpu 50');
});

test.run();
