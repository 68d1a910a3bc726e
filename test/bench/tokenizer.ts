/**
 * `make bench-tokenizer`: how long vocabularies take to be read, and how fast text becomes ids. Figures are medians, in
 * processor time, so that what else the machine does counts little. Each round has a tokenizer of its own, which knows no
 * word yet; the text is English, the documents of the packages in node_modules.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadModel } from '../../gateway/models/load-model.ts';
import { resolveModel } from '../../gateway/models/model-cache.ts';
import { finish } from '../../gateway/system/cooperative-scheduler.ts';
import { BpeTokenizer } from '../../gateway/tokenizer/bpe-tokenizer.ts';
import { tablesOfTokenizerJson } from '../../gateway/tokenizer/huggingface/tokenizer-json.ts';
import type { TokenizerTables } from '../../gateway/tokenizer/tables.ts';
import { fetchedVocabularies, readVocabulary } from '../vocabularies/vocabularies.ts';
import { median } from './statistics.ts';

const ROUNDS = 5;
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const textBytes = 2 ** 20;
const special = { bosToken: undefined, eosToken: undefined, addBos: undefined, addEos: undefined };

function processorMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function englishText(): string {
  const find = ['-L', 'node_modules', '-name', '*.md', '-size', '+7k'];
  const files = execFileSync('find', find, { cwd: ROOT, encoding: 'utf8' }).trim().split('\n').sort();
  const text = files.map((file) => readFileSync(`${ROOT}/${file}`, 'utf8')).join('\n');
  return text.slice(0, textBytes);
}

function encodedMegabytesPerSecond(tables: TokenizerTables, text: string): number {
  const rates = Array.from({ length: ROUNDS }, () => {
    const tokenizer = finish(BpeTokenizer.of(tables));
    const startMs = processorMs();
    tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
    return Buffer.byteLength(text) / 1000 / (processorMs() - startMs);
  });
  return median(rates);
}

async function loadMs(path: string): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const startMs = processorMs();
    const model = await loadModel(path);
    times.push(processorMs() - startMs);
    model.chatTemplate?.close();
  }
  return median(times);
}

const text = englishText();
console.log(`${(Buffer.byteLength(text) / 1e6).toFixed(2)} MB of English`);
console.log(`smollm2 (GGUF): ready in ${(await loadMs(resolveModel('smollm2'))).toFixed(0)} ms`);
for (const name of fetchedVocabularies()) {
  const file = readVocabulary(name);
  const startMs = processorMs();
  const tables = tablesOfTokenizerJson(file, special);
  const tablesMs = processorMs() - startMs;
  const rate = encodedMegabytesPerSecond(tables, text);
  console.log(`${name} (tokenizer.json): ready in ${tablesMs.toFixed(0)} ms, ${rate.toFixed(1)} MB/s`);
}
