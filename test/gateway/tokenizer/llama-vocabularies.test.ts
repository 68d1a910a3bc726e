/**
 * llama.cpp's own test cases for its tokenizer, which `make check` fetches: texts, and their ids by each model's own
 * tokenizer.
 */
import { closeSync, existsSync, fstatSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { readGguf } from '../../../gateway/models/gguf.ts';
import { tokenizerOfGguf } from '../../../gateway/models/gguf-tables.ts';
import { BpeTokenizer } from '../../../gateway/tokenizer/bpe-tokenizer.ts';
import type { TokenizerTables } from '../../../gateway/tokenizer/tables.ts';

const test = suite('llama vocabularies');
const folder = fileURLToPath(new URL('../../../build/llama-vocabularies/', import.meta.url));
/** Kinds of tokenizers that are refused, and what the error must name. */
const refused: Readonly<Record<string, string>> = { 'gemma-4': 'gemma4' };
const separator = '\n__ggml_vocab_test__\n';

function tablesOf(name: string): TokenizerTables {
  const fd = openSync(`${folder}ggml-vocab-${name}.gguf`, 'r');
  try {
    return tokenizerOfGguf(readGguf(fd, fstatSync(fd).size)).tables;
  } finally {
    closeSync(fd);
  }
}

const names = existsSync(folder)
  ? readdirSync(folder).flatMap((file) => /^ggml-vocab-(.*)\.gguf\.inp$/.exec(file)?.[1] ?? [])
  : [];

if (names.length === 0) {
  test('cases of llama.cpp', () => {
    console.log('SKIPPED: llama.cpp’s vocabularies are not downloaded; `make check` downloads them.');
  });
}

for (const name of names) {
  const kind = refused[name];
  if (kind !== undefined) {
    test(`${name} is refused by name`, () => assert.throws(() => tablesOf(name), `of the kind ${kind};`));
    continue;
  }
  test(`${name}: ids of llama.cpp's cases`, async () => {
    const tokenizer = await BpeTokenizer.of(tablesOf(name));
    const read = (suffix: string) => readFileSync(`${folder}ggml-vocab-${name}.gguf.${suffix}`, 'utf8');
    const texts = read('inp').split(separator);
    const lines = read('out').split('\n');
    let numCases = 0;
    for (const [index, line] of lines.slice(0, texts.length).entries()) {
      const ids = line.trim() === '' ? [] : line.trim().split(/\s+/).map(Number);
      const text = texts[index] as string;
      assert.equal(
        tokenizer.encode(text, { addSpecial: false, parseSpecial: false }),
        ids,
        JSON.stringify(text),
      );
      numCases++;
    }
    assert.ok(numCases >= 40, `${numCases} cases`);
    console.log(`${numCases} cases`);
  });
}

test.run();
