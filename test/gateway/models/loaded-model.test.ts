/** The model file is replaced after the gateway has read its vocabulary and before the runner reads its tensors. */

import { readFileSync, writeFileSync } from 'node:fs';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { differenceOf, maxRunnersOfOtherFiles } from '../../../gateway/models/loaded-model.ts';
import type { RunnerInfo } from '../../../gateway/runner/runner.ts';
import type { RunnerLauncher } from '../../../gateway/runner/supervision/runner-spec.ts';
import { byteModel } from '../../fixtures/byte-model.ts';
import { writeFakeModel } from '../../fixtures/fake-model-file.ts';
import { answerOf, fakeVocabSize } from '../../fixtures/fake-tokens.ts';
import { readNativeAnswer } from '../../fixtures/native-stream.ts';
import { ScriptedRunner } from '../../fixtures/scripted-runner.ts';
import { type ServedModels, servedModels } from '../../fixtures/served-models.ts';
import { type Directory, fakeCommand, patienceMs } from '../../fixtures/supervised.ts';
import { tinyId, tinyTokens } from '../../fixtures/tiny-vocabulary.ts';
import { until, within } from '../../fixtures/within.ts';

const test = suite('model file');

/** A model whose tokenizer has no merged tokens, so that the same text has other ids, in a vocabulary of the same size. */
const withoutMerges = { 'tokenizer.ggml.merges': { type: 'array', of: 'string', value: [] } } as const;
const BYTES_OF_HELLO = ['h', 'e', 'l', 'l', 'o'].map(tinyId);

/** Runs `between` after the gateway has read the file and before a runner opens it. */
function launchWith(between: (directory: Directory) => void) {
  return (directory: Directory): RunnerLauncher => ({
    command: ({ path }) => fakeCommand('--model', `${path}.identity`),
    prepare: async () => {
      between(directory);
      return undefined;
    },
  });
}

async function killRunner({ serving }: ServedModels): Promise<void> {
  const { pid } = serving.status();
  assert.ok(pid);
  process.kill(pid, 'SIGKILL');
  await until(patienceMs, 'the next runner', () => serving.status().restarts > 0);
}

async function answerTo(served: ServedModels, prompt: string): Promise<readonly number[]> {
  const job = { job_id: 'job', prompt, max_tokens: 20, seed: 42, token_ids: true };
  const response = await served.post('/execute', job);
  assert.is(response.status, 200);
  return (await within(patienceMs, 'An answer', readNativeAnswer(response))).ids;
}

async function assertFailed(served: ServedModels, reason: RegExp): Promise<void> {
  await until(patienceMs, 'the failure', () => served.serving.status().state === 'failed');
  assert.match(served.serving.status().reason ?? '', reason);
  for (const response of [
    await served.get('/ready'),
    await served.post('/execute', { job_id: 'job', prompt: 'hello' }),
    await served.post('/v1/completions', { model: 'a', prompt: 'hello' }),
    await served.post('/tokenize', { content: 'hello' }),
  ]) {
    assert.is(response.status, 503);
    assert.match(await response.text(), reason);
  }
}

/** The child processes that are readers of models. */
function readers(): string[] {
  const pids = readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').split(' ');
  return pids.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('reader-program');
    } catch {
      return false; // it has ended meanwhile
    }
  });
}

test('the reader of a model is started with the model, and ends with it', async () => {
  await servedModels({ launch: launchWith(() => {}) }, async (served) => {
    const [before, ...more] = readers();
    assert.ok(before !== undefined && more.length === 0, 'one is there, and nobody has asked for a chat');
    served.write('b');
    assert.is(await served.change('b'), undefined);
    await until(patienceMs, 'the end of the one before', () => !readers().includes(before));
    assert.is(readers().length, 1);
  });
  await until(patienceMs, 'the end of all', () => readers().length === 0);
});

test('a file that is replaced in between is read again, and text becomes the ids of what the runner has', async () => {
  let isReplaced = false;
  const launch = launchWith((directory) => {
    if (isReplaced) writeFakeModel(directory, 'a', withoutMerges);
    isReplaced = false;
  });
  await servedModels({ launch }, async (served) => {
    assert.equal(await answerTo(served, 'hello'), answerOf([tinyId('hello')], 42n, 20));
    assert.is(served.eventsOf('model_file_differs').length, 0);
    isReplaced = true;
    await killRunner(served);
    await until(patienceMs, 'the new model', () => served.serving.status().state === 'ready');
    assert.equal(await answerTo(served, 'hello'), answerOf(BYTES_OF_HELLO, 42n, 20));
    assert.is(served.eventsOf('model_file_differs').length, 1);
  });
});

test('no text is tokenized until the file is read again', async () => {
  let isReplaced = false;
  const launch = launchWith((directory) => {
    if (isReplaced) writeFakeModel(directory, 'a', withoutMerges);
    isReplaced = false;
  });
  await servedModels({ launch }, async (served) => {
    isReplaced = true;
    await killRunner(served);
    // Asks in every turn of the loop, from the old runner's death until the new file is served.
    let isServed = false;
    const deadlineMs = performance.now() + patienceMs;
    while (!isServed && performance.now() < deadlineMs) {
      await nextTurn();
      const response = await served.post('/tokenize', { content: 'hello' });
      const { state } = served.serving.status();
      if (response.status === 503) continue;
      const { tokens } = (await response.json()) as { tokens: number[] };
      isServed = tokens.length === BYTES_OF_HELLO.length;
      assert.ok(isServed || state !== 'ready', 'the old vocabulary is not used with the new runner');
    }
    assert.ok(isServed, 'the new file is served in the end');
  });
});

test('a runner with another file than there is serves nothing, and the reason names both', async () => {
  let identity: string | undefined;
  const launch = launchWith((directory) => {
    if (identity !== undefined) writeFileSync(directory.path('a.gguf.identity'), identity);
  });
  await servedModels({ launch }, async (served) => {
    identity = 'xxh3-0123456789abcdef-17-18-19';
    await killRunner(served);
    await assertFailed(
      served,
      /different versions of .*a\.gguf.*xxh3-0123456789abcdef-17-18-19, the gateway's \d+-\d+-\d+/,
    );
    assert.is(served.serving.status().restarts, maxRunnersOfOtherFiles);
    identity = undefined;
    served.write('a');
    assert.is(await served.change('a'), undefined);
    assert.equal(await answerTo(served, 'hello'), answerOf([tinyId('hello')], 42n, 20));
  });
});

test('a runner whose file is gone by the time it is ready is replaced by one that has the file there is', async () => {
  const others: string[] = [];
  let own = '';
  const launch = launchWith((directory) => {
    const path = directory.path('a.gguf.identity');
    own ||= readFileSync(path, 'utf8');
    writeFileSync(path, others.pop() ?? own);
  });
  await servedModels({ launch }, async (served) => {
    others.push('xxh3-0123456789abcdef-17-18-19');
    await killRunner(served);
    await until(patienceMs, 'the next two runners', () => served.serving.status().restarts === 2);
    await until(patienceMs, 'the file there is', () => served.serving.status().state === 'ready');
    assert.equal(await answerTo(served, 'hello'), answerOf([tinyId('hello')], 42n, 20));
    assert.is(served.eventsOf('model_file_differs').length, 1);
    assert.is(served.eventsOf('model_failed').length, 0);
  });
});

test('a runner that samples beyond the vocabulary serves nothing', async () => {
  const tokens = [...tinyTokens, ...Array.from({ length: 5 }, (_, index) => `word${index}`)];
  const fewer = {
    'tokenizer.ggml.tokens': { type: 'array', of: 'string', value: tokens },
    'tokenizer.ggml.token_type': { type: 'array', of: 'int32', value: tokens.map(() => 1) },
  } as const;
  let isFewer = false;
  const launch = launchWith((directory) => {
    if (isFewer) writeFakeModel(directory, 'a', fewer);
  });
  await servedModels({ launch }, async (served) => {
    isFewer = true;
    await killRunner(served);
    const told = `has a vocabulary of ${fakeVocabSize} tokens, but that of .* has ${tokens.length}`;
    await assertFailed(served, new RegExp(told));
  });
});

test('file, architecture and size of the vocabulary have to be those that the gateway has read', () => {
  const same: RunnerInfo = {
    ...(new ScriptedRunner().status().info as RunnerInfo),
    modelIdentity: `xxh3-0123456789abcdef-${byteModel.file}`,
    architecture: byteModel.architecture,
    vocabSize: byteModel.tokenizer.vocabSize,
  };
  assert.is(differenceOf(byteModel, same), undefined);
  const others: [Partial<RunnerInfo>, RegExp][] = [
    [{ modelIdentity: 'xxh3-0123456789abcdef-1-2-3' }, /read different versions of .*bytes\.gguf/],
    [{ modelIdentity: `${same.modelIdentity}4` }, /different versions/],
    [{ architecture: 'gpt2' }, /a model of architecture gpt2, but .*bytes\.gguf says llama/],
    [{ vocabSize: 257 }, /has a vocabulary of 257 tokens, but that of .*bytes\.gguf has 258/],
  ];
  for (const [change, reason] of others)
    assert.match(differenceOf(byteModel, { ...same, ...change }) ?? '', reason);
});

test.run();
