import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ModelFileError } from '../../../gateway/errors/thrown.ts';
import { resolveModel } from '../../../gateway/models/model-cache.ts';
import { loadModel, ModelSlot } from '../../../gateway/models/model-slot.ts';
import { byteModel } from '../../fixtures/byte-model.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { type WriterValue, writeGguf } from '../../fixtures/gguf-writer.ts';
import { largeVocabularyFile } from '../../fixtures/large-vocabulary.ts';
import { cpuRunner } from '../../fixtures/ran.ts';
import { recordedCases } from '../../fixtures/recorded-cases.ts';
import { settled } from '../../fixtures/scripted-service.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';
import { tinyModel } from '../../fixtures/tiny-model.ts';
import { tinyId, tinyMetadata, tinyTokens, tinyTokenTypes } from '../../fixtures/tiny-vocabulary.ts';
import { turnsDuring } from '../../fixtures/turns.ts';

const test = suite('model slot');

test('a model closed while it is read is released, and can be read again', async () => {
  let numOpen = 0;
  const close = (): void => {
    numOpen -= 1;
  };
  const slot = new ModelSlot('/a.gguf', {
    identity: async () => 'the one there is',
    load: async () => {
      await settled();
      numOpen += 1;
      return { ...byteModel, chatTemplate: undefined, tokenizer: { ...byteModel.tokenizer, close } };
    },
  });
  const reading = slot.refresh();
  slot.close();
  await reading;
  assert.equal([slot.current, numOpen], [undefined, 0]);
  await slot.refresh();
  assert.equal([slot.current?.id, numOpen], ['bytes', 1]);
  slot.close();
  assert.is(numOpen, 0);
});

const folder = temporaryFolder();

async function fault(path: string): Promise<ModelFileError> {
  const error = await errorOf(() => loadModel(path));
  assert.instance(error, ModelFileError, error.stack ?? '');
  assert.ok(error.message.includes(path), error.message);
  assert.match(error.message, /^(The model .*\.|Model path does not exist: .*)$/s);
  return error as ModelFileError;
}

async function faultWith(changes: Readonly<Record<string, WriterValue | undefined>>): Promise<string> {
  const path = folder.write('changed.gguf', writeGguf({ metadata: tinyMetadata(changes) }));
  const error = await fault(path);
  assert.is(error.exitCode, 65);
  return error.message;
}

test('a model is what its metadata says', async () => {
  const path = folder.write('Tiny-1B.Q4_0.gguf', writeGguf({ metadata: tinyMetadata() }));
  utimesSync(path, 1_700_000_000, 1_700_000_000);
  const model = await loadModel(path);
  assert.is(model.path, path);
  assert.is(model.id, 'Tiny-1B.Q4_0');
  assert.is(model.architecture, 'llama');
  assert.is(model.contextLength, 128);
  assert.is(model.tokenizer.vocabSize, tinyTokens.length);
  assert.is(model.created, 1_700_000_000);
  assert.equal(model.stopIds, [tinyId('<|im_end|>')]);
  assert.ok(model.chatTemplate !== undefined);
});

test('a reranker with a head for "yes" and "no" chats and ranks, and makes no vectors', async () => {
  const model = await tinyModel({
    'llama.classifier.output_labels': { type: 'array', of: 'string', value: ['yes', 'no'] },
    'llama.pooling_type': { type: 'uint32', value: 4 },
    'tokenizer.chat_template.rerank': { type: 'string', value: '{query} {document}' },
  });
  assert.equal(model.pooling, { unsupported: 'file says pooling_type 4' });
  assert.ok(model.chatTemplate !== undefined);
});

test('ends of a turn and of a message stop as well, where the file names them', async () => {
  const model = await tinyModel({
    'tokenizer.ggml.eot_token_id': { type: 'uint32', value: tinyId('<|im_start|>') },
    'tokenizer.ggml.eom_token_id': { type: 'uint32', value: tinyId('<|im_end|>') },
  });
  assert.equal(model.stopIds, [tinyId('<|im_end|>'), tinyId('<|im_start|>')]);
});

test('<|end|> ends an answer, but only one of its messages in a vocabulary that has <|return|>', async () => {
  const stopsOf = async (...ends: string[]) => {
    const types = [...tinyTokenTypes, ...ends.map(() => 3)];
    const model = await tinyModel({
      'tokenizer.ggml.tokens': { type: 'array', of: 'string', value: [...tinyTokens, ...ends] },
      'tokenizer.ggml.token_type': { type: 'array', of: 'int32', value: types },
      'tokenizer.ggml.eot_token_id': { type: 'uint32', value: tinyTokens.length },
    });
    return model.stopIds.map((id) => [...tinyTokens, ...ends][id]);
  };
  assert.equal(await stopsOf('<|end|>'), ['<|im_end|>', '<|end|>']);
  assert.equal(await stopsOf('<|end|>', '<|return|>', '<|call|>'), ['<|im_end|>', '<|return|>', '<|call|>']);
});

test('a model without a template has none', async () => {
  assert.is((await tinyModel({ 'tokenizer.chat_template': undefined })).chatTemplate, undefined);
});

test('a missing, irregular or unreadable file has its exit code', async () => {
  assert.is((await fault(join(folder.path, 'absent.gguf'))).exitCode, 66);
  assert.is((await fault(folder.path)).exitCode, 66);
  mkdirSync(join(folder.path, 'folder.gguf'));
  assert.is((await fault(join(folder.path, 'folder.gguf'))).exitCode, 66);
  assert.is((await fault('/dev/null')).exitCode, 66);
  const fifo = join(folder.path, 'fifo.gguf');
  execFileSync('mkfifo', [fifo]);
  assert.is((await fault(fifo)).exitCode, 66);
  if (process.getuid?.() !== 0) {
    const path = folder.write('secret.gguf', 'x');
    chmodSync(path, 0);
    assert.is((await fault(path)).exitCode, 77);
  }
});

function splitFile(name: string, no: WriterValue, count: WriterValue, first: boolean): string {
  const split = { 'split.no': no, 'split.count': count };
  const metadata = first ? tinyMetadata(split) : Object.entries(split);
  return folder.write(name, writeGguf({ metadata }));
}
const u16 = (value: number): WriterValue => ({ type: 'uint16', value });

test('a model that is split is named by its first part, and all its parts are there', async () => {
  const first = splitFile('split-00001-of-00003.gguf', u16(0), u16(3), true);
  splitFile('split-00002-of-00003.gguf', u16(1), { type: 'int32', value: 3 }, false);
  const missing = await fault(first);
  assert.is(missing.exitCode, 66);
  assert.match(missing.message, /is part 1 of 3; part 3, .*split-00003-of-00003\.gguf, does not exist\.$/);

  const last = splitFile('split-00003-of-00003.gguf', u16(2), u16(3), false);
  assert.is((await loadModel(first)).id, 'split');
  assert.match(
    (await fault(last)).message,
    /is part 3 of 3, as its name says; .*split-00001-of-00003\.gguf\.$/,
  );
  assert.is((await fault(last)).exitCode, 65);

  const faults: [WriterValue, WriterValue, RegExp][] = [
    [u16(1), u16(3), /split\.no is 1; part 3 of 3 has 2/],
    [u16(2), u16(4), /split\.count is 4, but its name says that it is part 3 of 3/],
    [u16(2), { type: 'string', value: '3' }, /split\.count/],
    [{ type: 'int32', value: -1 }, u16(3), /split\.no is -1/],
  ];
  for (const [no, count, expected] of faults) {
    splitFile('split-00003-of-00003.gguf', no, count, false);
    const error = await errorOf(() => loadModel(first));
    assert.instance(error, ModelFileError);
    assert.match(error.message, expected);
    assert.ok(error.message.includes('split-00003-of-00003.gguf'), error.message);
  }
  folder.write('split-00003-of-00003.gguf', 'no model');
  assert.match(
    (await errorOf(() => loadModel(first))).message,
    /00003-of-00003\.gguf cannot be used: it does not/,
  );
});

test('parts by name and parts by metadata have to agree', async () => {
  const renamed = splitFile('renamed.gguf', u16(0), u16(3), true);
  assert.match((await fault(renamed)).message, /split\.count is 3, but its name says that it is part 1 of 1/);
  const many = splitFile('many-00001-of-02000.gguf', u16(0), u16(2000), true);
  assert.match((await fault(many)).message, /has 2000 parts, as its name says; 1 to 1024 are supported\.$/);
  const none = splitFile('none-00001-of-00000.gguf', u16(0), u16(0), true);
  assert.is((await fault(none)).exitCode, 65);
});

test('a damaged file has exit code 65 and one sentence', async () => {
  assert.is((await fault(folder.write('empty.gguf', ''))).exitCode, 65);
  assert.is((await fault(folder.write('text.gguf', 'This is no model.'))).exitCode, 65);
  const whole = writeGguf({ metadata: tinyMetadata() });
  for (let cut = 1; cut <= 40; cut++) {
    const path = folder.write('cut.gguf', whole.subarray(0, Math.floor((whole.length * cut) / 41)));
    assert.is((await fault(path)).exitCode, 65);
  }
});

/** Changes to the metadata of the tiny model: KEY, and TYPE and JSON unless it is left out. */
function changedBy(line: string): Record<string, WriterValue | undefined> {
  const changes = line.split('; ').map((change): [string, WriterValue | undefined] => {
    const [, key = '', type, json = ''] = /^(\S+)(?: (\S+) (.*))?$/.exec(change) ?? [];
    if (type === undefined) return [key, undefined];
    const value = JSON.parse(json);
    if (type === 'tokens-and')
      return [key, { type: 'array', of: 'string', value: [...tinyTokens, ...value] }];
    if (type === 'bos-is') {
      const tokens = tinyTokens.map((token) => (token === '<|bos|>' ? value : token));
      return [key, { type: 'array', of: 'string', value: tokens }];
    }
    if (type === 'each') return [key, { type: 'array', of: 'int32', value: tinyTokens.map(() => value) }];
    if (type === 'strings') return [key, { type: 'array', of: 'string', value }];
    return [key, { type, value } as WriterValue];
  });
  return Object.fromEntries(changes);
}

recordedCases(test, import.meta.url, async (line) => {
  const message = await faultWith(changedBy(line));
  return message.replaceAll(folder.path, 'FOLDER').replace(/(supported are: default, ).*/, '$1…');
});

test('an unsupported architecture is refused first, in the words of a runner', async () => {
  for (const architecture of ['mamba', 'qwen', 'a "quoted" Ünicode\n', 'x'.repeat(100)]) {
    const path = folder.write(
      'foreign.gguf',
      writeGguf({
        metadata: tinyMetadata({
          'general.architecture': { type: 'string', value: architecture },
          // The tokenizer would complain about these.
          'tokenizer.ggml.pre': { type: 'string', value: 'brand-new' },
        }),
      }),
    );
    const error = await errorOf(() => loadModel(path));
    assert.instance(error, ModelFileError);
    assert.is((error as ModelFileError).exitCode, 65);
    const { status, stderr } = cpuRunner('generate', '--model', path, '--tokens', '1');
    assert.is(status, 65);
    assert.ok(stderr.includes(error.message), `${stderr} has ${error.message}`);
  }
});

test('a vocabulary of 128,000 tokens is read in turns of the loop, and streams go on meanwhile', async () => {
  const path = folder.write('large.gguf', largeVocabularyFile(128_000));
  const { result, numTurns, longestMs, longestShare } = await turnsDuring(() => loadModel(path));
  assert.is(result.tokenizer.vocabSize, 128_000);
  assert.equal(result.tokenizer.encode('!!', { addSpecial: false, parseSpecial: false }), [
    256 + 33 * 256 + 33,
  ]);
  // A thread reads the model. What `make bench` reports of it is in milliseconds.
  const longest = `${numTurns} turns, the longest ${longestMs.toFixed(1)} ms, ${(100 * longestShare).toFixed(1)} % of the work`;
  console.log(longest);
  assert.ok(numTurns >= 10 && longestShare <= 1 / 10, longest);
});

test('the default model is read as it is', async () => {
  const path = resolveModel('smollm2');
  const model = await loadModel(path);
  assert.is(model.id, 'smollm2');
  assert.is(model.architecture, 'llama');
  assert.is(model.contextLength, 8192);
  assert.is(model.tokenizer.vocabSize, 49_152);
  assert.equal(model.stopIds, [2, 0]);
});

test.run();
