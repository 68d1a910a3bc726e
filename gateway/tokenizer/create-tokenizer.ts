/** The tokenizer that a model file describes. */
import type { Metadata } from '../model/metadata.ts';
import type { Steps } from '../ops/long-work.ts';
import { WordMerger } from './bpe.ts';
import { ByteLevelTokenizer, type SpecialTokens } from './byte-level-tokenizer.ts';
import { MergeTable } from './merge-table.ts';
import { preTokenizers } from './pre-tokenizers.ts';
import { TokenizerError } from './tokenizer-error.ts';
import { Vocabulary } from './vocabulary.ts';

/** Merges looked up in a step. */
const stepMerges = 1024;
/** Keys of tokens that begin or end something: never ordinary text, whatever type the file gives them. */
const controlKeys = ['bos', 'eos', 'eot', 'eom'].map((name) => `tokenizer.ggml.${name}_token_id`);

/** Throws TokenizerError, or MetadataError for a key that is missing or of another type. */
export function* createTokenizer(metadata: Metadata): Steps<ByteLevelTokenizer> {
  const kind = metadata.string('tokenizer.ggml.model');
  if (kind !== 'gpt2') {
    throw new TokenizerError(`its tokenizer is of the kind ${kind}; gpt2 (byte-level BPE) is supported`);
  }
  const preName = metadata.string('tokenizer.ggml.pre');
  const words = preTokenizers.get(preName);
  if (words === undefined) {
    const known = [...preTokenizers.keys()].join(', ');
    throw new TokenizerError(`its pre-tokenizer is ${preName}; supported are: ${known}`);
  }
  const tokens = yield* metadata.stringArray('tokenizer.ggml.tokens');
  if (tokens.length === 0) throw new TokenizerError('its vocabulary is empty');
  const controlIds = controlKeys.flatMap((key) => tokenId(metadata, key, tokens.length) ?? []);
  const vocabulary = yield* Vocabulary.of(
    tokens,
    metadata.optionalInt32Array('tokenizer.ggml.token_type'),
    controlIds,
  );
  const merges = yield* mergesOf(vocabulary, yield* metadata.stringArray('tokenizer.ggml.merges'));
  const special = specialTokensOf(metadata, tokens.length);
  return yield* ByteLevelTokenizer.of(vocabulary, words, new WordMerger(merges), special);
}

function specialTokensOf(metadata: Metadata, vocabSize: number): SpecialTokens {
  return {
    bosId: tokenId(metadata, 'tokenizer.ggml.bos_token_id', vocabSize),
    eosId: tokenId(metadata, 'tokenizer.ggml.eos_token_id', vocabSize),
    addBos: metadata.optionalBool('tokenizer.ggml.add_bos_token') ?? false,
    addEos: metadata.optionalBool('tokenizer.ggml.add_eos_token') ?? false,
  };
}

function tokenId(metadata: Metadata, key: string, vocabSize: number): number | undefined {
  const id = metadata.optionalUint32(key);
  if (id !== undefined && id >= vocabSize) {
    throw new TokenizerError(`${key} is ${id}, but the vocabulary has ${vocabSize} tokens`);
  }
  return id;
}

function* mergesOf(vocabulary: Vocabulary, merges: readonly string[]): Steps<MergeTable> {
  const table = new MergeTable(merges.length);
  for (const [index, merge] of merges.entries()) {
    // Neither part has a space, which byte-level text writes as another character.
    const at = merge.indexOf(' ');
    const left = merge.slice(0, at);
    const right = merge.slice(at + 1);
    const ids = [vocabulary.id(left), vocabulary.id(right), vocabulary.id(left + right)] as const;
    if (at < 1 || ids[0] === undefined || ids[1] === undefined || ids[2] === undefined) {
      throw new TokenizerError(`merge ${index}, ${JSON.stringify(merge)}, is not of two tokens into a third`);
    }
    if (!table.add(ids[0], ids[1], ids[2])) {
      throw new TokenizerError(`merge ${index}, ${JSON.stringify(merge)}, is there twice`);
    }
    if (index % stepMerges === 0) yield;
  }
  return table;
}
