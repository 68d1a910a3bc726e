/**
 * `make bench-tokenizer`: how long it takes to read models, the longest pause of the event loop meanwhile, and how fast
 * text becomes ids. Figures are medians. Pauses and rates are in processor time, so that other load on the machine has
 * little effect. Each round has a new tokenizer whose word cache is empty. The text is English: documents of the
 * packages in node_modules.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { resolveModel } from '../../gateway/models/model-cache.ts';
import { BpeTokenizer } from '../../gateway/tokenizer/bpe-tokenizer.ts';
import { tablesOfTokenizerJson } from '../../gateway/tokenizer/huggingface/tokenizer-json.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { fetchedVocabularies, readVocabulary } from '../vocabularies/vocabularies.ts';
import { largeModel, modelOfVocabulary, readingOf, told } from './reading.ts';
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

async function encodedMegabytesPerSecond(name: string, text: string): Promise<number> {
  const tables = tablesOfTokenizerJson(readVocabulary(name), special);
  const rates: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const tokenizer = await BpeTokenizer.of(tables);
    const startMs = processorMs();
    tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
    rates.push(Buffer.byteLength(text) / 1000 / (processorMs() - startMs));
  }
  return median(rates);
}

const text = englishText();
const folder = temporaryFolder();
console.log(`${(Buffer.byteLength(text) / 1e6).toFixed(2)} MB of English`);
console.log(`smollm2 (GGUF): ${told(await readingOf(resolveModel('smollm2'), ROUNDS))}`);
console.log(`262,144 tokens (GGUF): ${told(await readingOf(largeModel(folder), ROUNDS))}`);
for (const name of fetchedVocabularies()) {
  const reading = await readingOf(modelOfVocabulary(folder, name), ROUNDS);
  const rate = await encodedMegabytesPerSecond(name, text);
  console.log(`${name} (tokenizer.json): ${told(reading)}, ${rate.toFixed(1)} MB/s`);
}
