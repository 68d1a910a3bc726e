/**
 * What the name of a pre-tokenizer in a GGUF file (tokenizer.ggml.pre) means. Merges never cross words, so a wrong cut gives
 * ids that the model has never seen. A name that is not in the table is therefore refused.
 *
 * The names are those that llama.cpp writes. Where llama.cpp approximates a model's own expression (letters with and without
 * case in gpt-4o, tekken and similar ones), the table has the model's own.
 */
import type { Stage } from './word-splitter.ts';

export interface PreTokenizer {
  /** The stages, in order. Each one cuts the pieces of the stage before. */
  readonly stages: readonly Stage[];
  /** Whether a whole word that is a token becomes that token without merging. */
  readonly ignoreMerges?: boolean;
  /** Whether BOS is added if the file does not say. */
  readonly addBos?: boolean;
  /** Whether text is normalized to Unicode's form NFC, as these models' own tokenizers do. */
  readonly isNfc?: boolean;
}

const gpt2: PreTokenizer = { stages: ['gpt2'] };
const digitsApart: PreTokenizer = { stages: ['digit', 'gpt2'] };
const llama3: PreTokenizer = { stages: ['llama3'], ignoreMerges: true, addBos: true };
const qwen2: PreTokenizer = { stages: ['qwen2'] };
const deepseek3: PreTokenizer = { stages: ['threeDigits', 'kanjiAndKana', 'deepseek3'] };
const gpt4o: PreTokenizer = { stages: ['gpt4o'] };
const bloom: PreTokenizer = { stages: ['bloom'] };
const bailing: PreTokenizer = { stages: ['bailing'] };
const tinyAya: PreTokenizer = { stages: ['wholeNumbersInThrees', 'gpt4o'] };

export const preTokenizers: ReadonlyMap<string, PreTokenizer> = new Map<string, PreTokenizer>([
  ['default', { stages: ['defaultMarks', 'gpt2', 'digits', 'threeAsciiDigits'] }],
  ...named(llama3, 'llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano'),
  ['minicpm5', { stages: ['threeDigits', 'minicpm5'], ignoreMerges: true }],
  [
    'deepseek-llm',
    { stages: ['newline', 'spacedCasedLetters', 'spacedMarks', 'spaceAtEnd', 'eastAsian', 'digit'] },
  ],
  ['deepseek-coder', { stages: ['newline', 'spacedLetters', 'spacedPunctuation', 'eastAsian', 'digit'] }],
  ...named(deepseek3, 'deepseek-v3 hunyuan-dense hy_v4 joyai-llm'),
  ['spark2_5', { stages: ['threeDigits', 'kanjiAndKana', 'spark', 'digit'] }],
  ['youtu', { stages: ['hangulBopomofoKanji', 'youtu'], ignoreMerges: true }],
  ['falcon', { stages: ['falconMarks', 'gpt2', 'threeAsciiDigits'] }],
  ...named(digitsApart, 'starcoder refact command-r smollm codeshell exaone minerva-7b mellum2'),
  ...named(gpt2, 'gpt-2 phi-2 mpt olmo jais trillion granite-docling exaone4 gigachat'),
  ...named(gpt2, 'jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe'),
  ...named(gpt2, 'a.x-4.0 mellum modern-bert'),
  ['jais-2', { stages: ['jais2'] }],
  ['qwen2', { ...qwen2, isNfc: true }],
  ['qwen35', { stages: ['qwen35'] }],
  ...named(qwen2, 'deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2'),
  ...named({ stages: ['llama3'] }, 'dbrx smaug-bpe chatglm-bpe'),
  ...named({ stages: ['llama3'], ignoreMerges: true }, 'glm4 glm5'),
  ...named(bloom, 'poro-chat bloom gpt3-finnish'),
  ['viking', { stages: ['bloom', 'digit'] }],
  ['tekken', { stages: ['tekken'], ignoreMerges: true, addBos: true }],
  ['exaone-moe', { stages: ['exaoneMoe'] }],
  [
    'chameleon',
    { stages: ['sentinel', 'imageTokens', 'tabsAndSpaces', 'digit', 'punctuation', 'gpt2'], addBos: true },
  ],
  ...named(gpt4o, 'gpt-4o llama4 kanana2 talkie minimax-m2'),
  ['granite-embed-multi-97m', { ...gpt4o, ignoreMerges: true }],
  ...named(tinyAya, 'tiny_aya cohere2moe'),
  ['superbpe', { stages: ['digits', 'numbersInThrees'] }],
  ...named(bailing, 'bailingmoe bailingmoe2 llada-moe'),
  ['seed-coder', { stages: ['seedCoder'] }],
  ['kimi-k2', { stages: ['kimiK2'] }],
  ['ufakzeka', { stages: ['ufakzeka'] }],
  ['afmoe', { stages: ['numbersApartInThrees', 'asianScripts', 'deepseek3'] }],
  ['laguna', { stages: ['lines', 'qwen2'] }],
]);

/** names: separated by spaces. */
function named(tokenizer: PreTokenizer, names: string): [string, PreTokenizer][] {
  return names.split(' ').map((name) => [name, tokenizer]);
}
