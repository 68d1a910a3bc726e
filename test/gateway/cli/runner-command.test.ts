import { statSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { runnerCommand, sharesWeights } from '../../../gateway/cli/runner-command.ts';
import { readConfig } from '../../../gateway/config/config.ts';
import { ModelSlot } from '../../../gateway/models/model-slot.ts';
import { TINY_MODEL } from '../../fixtures/default-model.ts';
import { recordedCases, wordsOf } from '../../fixtures/recorded-cases.ts';

const test = suite('runner command');

recordedCases(test, import.meta.url, (line) => {
  const [kind, ...flags] = wordsOf(line);
  const config = readConfig(['--model', 'm.gguf', ...flags], {});
  const { file, args } = runnerCommand(kind === 'cuda' ? 'cuda' : 'cpu', config, new ModelSlot('m.gguf'));
  return [file, ...args].join(' ');
});

test('the runner gets the name of the file that was read', async () => {
  const slot = new ModelSlot(TINY_MODEL);
  await slot.refresh();
  const { size, mtimeNs, ino, dev } = statSync(TINY_MODEL, { bigint: true });
  const { args } = runnerCommand('cpu', readConfig(['--model', TINY_MODEL], {}), slot);
  assert.equal(args.slice(0, 7), [
    'serve',
    '--model',
    TINY_MODEL,
    '--architecture',
    'llama',
    '--expect-file',
    `${size}-${mtimeNs}-${ino}-${dev}`,
  ]);
  slot.close();
});

test('runners share weights unless a single one would get small pages for them in place of huge ones', () => {
  const pages = (shared_setting: string | null, for_weights: boolean) => ({ shared_setting, for_weights });
  assert.is(sharesWeights(1, pages('never', true)), true);
  assert.is(sharesWeights(1, pages('deny', false)), false);
  assert.is(sharesWeights(2, pages('deny', false)), true);
  assert.is(sharesWeights(1, pages(null, false)), true, 'its own would be in small ones too');
});

test('what decides the packed weights is in their key, and nothing else', async () => {
  const slot = new ModelSlot(TINY_MODEL);
  await slot.refresh();
  const keyOf = (...flags: string[]) =>
    runnerCommand(
      'cpu',
      readConfig(['--model', TINY_MODEL, '--runners', '2', '--backend', 'cpu', ...flags], {}),
      slot,
    ).weightsKey;
  assert.ok(keyOf());
  assert.is(keyOf('--threads', '1', '--numa', '2', '--isa', 'portable', '--max-num-seqs', '3'), keyOf());
  assert.is.not(keyOf('--quantize', 'q8_0'), keyOf());
  assert.is.not(keyOf('--runner', 'another'), keyOf());
  assert.is(keyOf('--tensor-parallel-size', '1'), keyOf());
  assert.is(keyOf('--tensor-parallel-size', '2'), undefined, 'each rank packs its own part');
  slot.close();
});

const kvKeyOf = (...flags: string[]): string | undefined => {
  const config = readConfig(['--model', 'm.gguf', ...flags], {});
  return runnerCommand('cpu', config, new ModelSlot('m.gguf')).kvKey;
};

test('what a CPU runner computes is kept for the next one, unless a setting or a recording says otherwise', () => {
  assert.ok(kvKeyOf());
  assert.is(kvKeyOf('--keep-kv', 'off'), undefined);
  assert.is(kvKeyOf('--record', 'frames'), undefined);
});

test('what decides the KV cache is in its key, but not how many blocks the one before had', () => {
  const config = readConfig(['--model', 'm.gguf'], {});
  const following = runnerCommand('cpu', config, new ModelSlot('m.gguf'), { kind: 'cpu', numBlocks: 77 });
  assert.is(following.kvKey, kvKeyOf());
  for (const flags of [
    ['--runner', 'another'],
    ['--num-kvcache-blocks', '77'],
    ['--memory-bytes', '1000000'],
    ['--max-model-len', '100'],
    ['--kv-cache-type', 'q8_0'],
  ])
    assert.is.not(kvKeyOf(...flags), kvKeyOf());
});

test('the cache that is to follow another one is named, unless a setting says the size, or it is of another kind', () => {
  const cached = (kind: 'cpu' | 'cuda', ...flags: string[]) => {
    const config = readConfig(['--model', 'm.gguf', ...flags], {});
    const { args } = runnerCommand(kind, config, new ModelSlot('m.gguf'), { kind: 'cpu', numBlocks: 77 });
    return args.join(' ').includes('--num-kvcache-blocks 77');
  };
  assert.ok(cached('cpu'));
  assert.ok(cached('cpu', '--max-model-len', '99'));
  assert.not(cached('cuda'));
  for (const flag of ['--kv-cache-bytes', '--num-kvcache-blocks', '--memory-bytes'])
    assert.not(cached('cpu', flag, '9000'), flag);
});

test.run();
