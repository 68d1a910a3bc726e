/**
 * Reads the tokenizer from a GGUF file's metadata. Keys are from docs/gguf.md of the ggml project; their meanings follow
 * llama.cpp.
 */

import { harmonyMarks } from '../prompt/harmony-format.ts';
import { packAddedTokens } from '../tokenizer/added-tokens.ts';
import { charsmapOf } from '../tokenizer/charsmap.ts';
import { MergeTable, newMergeSlots, ranksOf } from '../tokenizer/merges.ts';
import { decodeUtf8, isTextAt, type PackedTexts, stringAt, TextIndex } from '../tokenizer/packed-texts.ts';
import { lowerCase } from '../tokenizer/pre-tokenizers/bert.ts';
import { type PreTokenizer, preTokenizers } from '../tokenizer/pre-tokenizers/named.ts';
import { crossingsOf } from '../tokenizer/sentencepiece.ts';
import {
  type AddedToken,
  spaceMark,
  type TextChange,
  TokenizerError,
  type TokenizerTables,
} from '../tokenizer/tables.ts';
import { unigramVocabulary, unknownScoreOf } from '../tokenizer/unigram.ts';
import {
  byteOfToken,
  decodeAlphabet,
  endsTurn,
  foundTokens,
  roles,
  type Vocabulary,
  vocabularyOf,
} from '../tokenizer/vocabulary.ts';
import { wordPieceVocabulary } from '../tokenizer/wordpiece.ts';
import type { Metadata } from './metadata.ts';

const types = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;
/** Keys of tokens that begin or end something. They are control tokens, whatever type the file gives them. */
const controlKeys = ['bos', 'eos', 'eot', 'eom'].map(keyOf);
/** The same for WordPiece, as llama.cpp spells them. */
const bertControlKeys = [...controlKeys, ...['cls', 'seperator', 'unknown', 'padding', 'mask'].map(keyOf)];
/** Keys of tokens that end an answer: the end of the text, of a turn, or of a message. */
const stopKeys = ['eos', 'eot', 'eom'].map(keyOf);

export interface GgufTokenizer {
  readonly tables: TokenizerTables;
  /** Tokens that end an answer. */
  readonly stopIds: readonly number[];
}

/** Throws TokenizerError, or MetadataError for a key that is missing or has another type. */
export function tokenizerOfGguf(metadata: Metadata): GgufTokenizer {
  const kind = metadata.string('tokenizer.ggml.model');
  if (kind !== 'gpt2' && kind !== 'llama' && kind !== 'bert' && kind !== 't5')
    throw new TokenizerError(
      `its tokenizer is of the kind ${kind}; gpt2 (byte-level BPE), llama (SentencePiece), bert (WordPiece) and t5 (Unigram) are supported`,
    );
  const tokens = metadata.texts('tokenizer.ggml.tokens');
  if (tokens.starts.length === 1) throw new TokenizerError('its vocabulary is empty');
  const role = rolesOf(metadata, tokens, kind);
  const added = addedTokens(tokens, role);
  const id = (name: string) => tokenId(metadata, keyOf(name), role.length);
  const named = stopKeys.flatMap((key) => tokenId(metadata, key, role.length) ?? []);
  const stopIds = endsOnly([...new Set([...named, ...turnEnds(tokens, role)])], tokens);
  const common = { added: packAddedTokens(added), unknownId: id('unknown') };
  if (kind === 'bert') return { tables: { ...common, ...wordPiece(metadata, tokens, role, id) }, stopIds };
  const pre = kind === 'gpt2' ? preTokenizerOf(metadata.string('tokenizer.ggml.pre')) : undefined;
  const vocabulary =
    kind === 't5'
      ? unigramVocabulary(tokens, role, common.unknownId)
      : vocabularyOf(tokens, role, pre === undefined ? 'sentencepiece' : 'byte-level');
  const bosId = id('bos');
  const eosId = id('eos');
  const addBos = metadata.optionalBool('tokenizer.ggml.add_bos_token') ?? pre?.addBos ?? kind === 'llama';
  const addEos = metadata.optionalBool('tokenizer.ggml.add_eos_token') ?? kind === 't5';
  return {
    tables: {
      ...common,
      ...vocabulary,
      ...(pre !== undefined
        ? byteLevel(metadata, pre, vocabulary, added)
        : kind === 't5'
          ? unigram(metadata, vocabulary)
          : sentencePiece(metadata, vocabulary)),
      isNfc: pre?.isNfc ?? false,
      prefixIds: addBos && bosId !== undefined ? [bosId] : [],
      suffixIds: addEos && eosId !== undefined ? [eosId] : [],
      // RoBERTa's, as llama.cpp has it. Only models that score pairs use it.
      pair:
        bosId === undefined || eosId === undefined
          ? undefined
          : {
              prefixIds: [bosId],
              betweenIds: [eosId, id('seperator') ?? eosId],
              suffixIds: [eosId],
              hasTypes: false,
            },
      bosId,
      eosId,
    },
    stopIds,
  };
}

function keyOf(token: string): string {
  return `tokenizer.ggml.${token}_token_id`;
}

function preTokenizerOf(name: string): PreTokenizer {
  const found = preTokenizers.get(name);
  if (found !== undefined) return found;
  const known = [...preTokenizers.keys()].join(', ');
  throw new TokenizerError(`its pre-tokenizer is ${JSON.stringify(name)}; supported are: ${known}`);
}

function byteLevel(
  metadata: Metadata,
  pre: PreTokenizer,
  vocabulary: Vocabulary,
  added: readonly AddedToken[],
) {
  const control = new Set(added.filter(({ isControl }) => isControl).map(({ content }) => content));
  const merges = metadata.texts('tokenizer.ggml.merges');
  const { stages, ignoreMerges = false } = pre;
  return {
    kind: 'gguf-bpe',
    form: { kind: 'byte-level', stages, ignoreMerges },
    merges: { kind: 'pairs', slots: mergesOf(vocabulary, merges, control) },
  } as const;
}

/**
 * Text is cut into words and normalized as Hugging Face's library does it for these models. llama.cpp differs from it where a
 * sequence of several characters is replaced.
 */
function unigram(metadata: Metadata, vocabulary: Vocabulary) {
  const scores = scoresOf(metadata, vocabulary);
  const given = metadata.optionalInt32Array('tokenizer.ggml.token_type');
  const charsmap = metadata.optionalBytes('tokenizer.ggml.precompiled_charsmap');
  const addsSpace = metadata.optionalBool('tokenizer.ggml.add_space_prefix') ?? true;
  const changes: TextChange[] = charsmap === undefined ? [] : [{ kind: 'charsmap' }];
  if (metadata.optionalBool('tokenizer.ggml.remove_extra_whitespaces') ?? true)
    changes.push({ kind: 'words' });
  return {
    kind: 'gguf-ugm',
    form: {
      kind: 'unigram',
      changes,
      charsmap: charsmap && charsmapOf(charsmap),
      spacePrefix: addsSpace ? 'always-unless-space' : 'never',
      splits: true,
      scores: Float64Array.from(scores),
      // Converters give padding a score of its own.
      unknownScore: unknownScoreOf(scores.filter((_, id) => (given?.[id] ?? types.normal) === types.normal)),
    },
    merges: { kind: 'pairs', slots: newMergeSlots(0) },
  } as const;
}

function scoresOf(metadata: Metadata, { texts }: Vocabulary): Float32Array {
  const scores = metadata.optionalFloat32Array('tokenizer.ggml.scores');
  const numTokens = texts.starts.length - 1;
  if (scores?.length !== numTokens)
    throw new TokenizerError(
      `tokenizer.ggml.scores has ${scores?.length ?? 0} entries for ${numTokens} tokens`,
    );
  if (scores.some(Number.isNaN))
    throw new TokenizerError('tokenizer.ggml.scores has an entry that is not a number');
  return scores;
}

function sentencePiece(metadata: Metadata, vocabulary: Vocabulary) {
  const { texts, index, byteIds } = vocabulary;
  const scores = scoresOf(metadata, vocabulary);
  if (new TextIndex(texts, index).find(Uint8Array.of(0x20), 0, 1) === -1 && byteIds[0x20] === -1)
    throw new TokenizerError(`its vocabulary has no token for a space, written ${spaceMark}`);
  const addsSpace = metadata.optionalBool('tokenizer.ggml.add_space_prefix') ?? true;
  return {
    kind: 'gguf-spm',
    form: {
      kind: 'sentencepiece',
      spacePrefix: addsSpace ? 'always' : 'never',
      ignoreMerges: false,
      crossings: crossingsOf(vocabulary),
    },
    merges: { kind: 'scores', ranks: ranksOf(scores) },
  } as const;
}

/**
 * Text is cut into words as Hugging Face's BertTokenizer cuts it, whose ids the model was trained with. llama.cpp differs from it
 * in these points: it keeps accents that are characters of their own, and spells words of more than 100 characters, too. As in
 * llama.cpp, [CLS] and [SEP] are put around a text whatever the file says of them, and the keys of the normalizer, which only
 * newer files have, count. A file without them lowers and loses accents unless its vocabulary has capital letters.
 */
function wordPiece(
  metadata: Metadata,
  tokens: PackedTexts,
  role: Uint8Array,
  id: (name: string) => number | undefined,
) {
  const userDefined = role.indexOf(roles.literal);
  if (userDefined !== -1)
    throw new TokenizerError(
      `its token ${JSON.stringify(stringAt(tokens, userDefined))} is user-defined, which is not supported with WordPiece`,
    );
  const bosId = id('cls') ?? id('bos');
  const eosId = id('seperator') ?? id('eos');
  if (bosId === undefined || eosId === undefined)
    throw new TokenizerError(
      bosId === undefined
        ? `it has neither ${keyOf('cls')} nor ${keyOf('bos')}, the token in front of a text`
        : `it has neither ${keyOf('seperator')} nor ${keyOf('eos')}, the token that ends a text`,
    );
  const lowers = metadata.optionalBool('tokenizer.ggml.normalizer.lowercase') ?? !isCased(tokens, role);
  const stripsAccents = metadata.optionalBool('tokenizer.ggml.normalizer.strip_accents') ?? lowers;
  return {
    ...wordPieceVocabulary(tokens, role, 'phantom-spaces', id('unknown')),
    kind: 'gguf-wpm',
    form: { kind: 'wordpiece', cleans: true, isolatesHan: true, stripsAccents, lowers },
    merges: { kind: 'pairs', slots: newMergeSlots(0) },
    isNfc: false,
    prefixIds: [bosId],
    suffixIds: [eosId],
    pair: { prefixIds: [bosId], betweenIds: [eosId], suffixIds: [eosId], hasTypes: true },
    bosId,
    eosId,
  } as const;
}

/** Whether a token has a capital letter. Control tokens and those in brackets, such as [unused1] and [PAD7], do not count. */
function isCased(tokens: PackedTexts, role: Uint8Array): boolean {
  return role.some((each, id) => {
    if (each === roles.control) return false;
    const text = stringAt(tokens, id);
    return lowerCase(text) !== text && !/^▁?\[.*\]$/su.test(text);
  });
}

function rolesOf(
  metadata: Metadata,
  tokens: PackedTexts,
  kind: 'gpt2' | 'llama' | 'bert' | 't5',
): Uint8Array {
  const numTokens = tokens.starts.length - 1;
  const given = metadata.optionalInt32Array('tokenizer.ggml.token_type');
  if (given !== undefined && given.length !== numTokens)
    throw new TokenizerError(`tokenizer.ggml.token_type has ${given.length} entries for ${numTokens} tokens`);
  const role = new Uint8Array(numTokens);
  for (let id = 0; id < numTokens; id++) {
    const type = given?.[id] ?? types.normal;
    if (type < 0 || type > types.byte) throw new TokenizerError(`the token ${id} has type ${type}`);
    if (type === types.control || type === types.unknown) role[id] = roles.control;
    else if (type === types.userDefined) role[id] = roles.literal;
    else if (kind === 't5' && type === types.byte && byteOfToken(tokens, id) >= 0) role[id] = roles.byte;
    else if (kind === 'llama' && (type === types.byte || given === undefined) && byteOfToken(tokens, id) >= 0)
      role[id] = roles.byte;
    if (looksSpecial(tokens, id) && endsTurn(stringAt(tokens, id))) role[id] = roles.control;
  }
  for (const key of kind === 'bert' || kind === 't5' ? bertControlKeys : controlKeys) {
    const id = tokenId(metadata, key, numTokens);
    if (id !== undefined) role[id] = roles.control;
  }
  return role;
}

/** A quick check of the first byte, so that only few tokens are turned into strings. */
function looksSpecial({ bytes, starts }: PackedTexts, id: number): boolean {
  const first = bytes[starts[id] as number];
  return first === 0x3c || first === 0x5b; // < or [
}

function turnEnds(tokens: PackedTexts, role: Uint8Array): number[] {
  return [...role.keys()].filter(
    (id) => role[id] === roles.control && looksSpecial(tokens, id) && endsTurn(stringAt(tokens, id)),
  );
}

/** In harmony <|end|>, which ends an answer of Phi-3, only ends one of the answer's messages. */
function endsOnly(ids: readonly number[], tokens: PackedTexts): readonly number[] {
  const isHarmony = ids.some((id) => stringAt(tokens, id) === harmonyMarks.return);
  return isHarmony ? ids.filter((id) => stringAt(tokens, id) !== harmonyMarks.end) : ids;
}

function addedTokens(tokens: PackedTexts, role: Uint8Array): AddedToken[] {
  const added: AddedToken[] = [];
  for (let id = 0; id < role.length; id++) {
    const isControl = role[id] === roles.control;
    if (!isControl && role[id] !== roles.literal) continue;
    const content = stringAt(tokens, id);
    added.push({ id, content, isControl, stripsLeft: false, stripsRight: false, isWholeWord: false });
  }
  return added;
}

function tokenId(metadata: Metadata, key: string, vocabSize: number): number | undefined {
  const id = metadata.optionalUint32(key);
  if (id !== undefined && id >= vocabSize)
    throw new TokenizerError(`${key} is ${id}, but the vocabulary has ${vocabSize} tokens`);
  return id;
}

/** Reads the merges from the file: `left right` in the byte alphabet, in the order of their ranks. */
function mergesOf(vocabulary: Vocabulary, merges: PackedTexts, control: ReadonlySet<string>): Int32Array {
  const { texts, index } = vocabulary;
  const isFound = foundTokens(vocabulary);
  let last = -1;
  const numMerges = merges.starts.length - 1;
  const slots = newMergeSlots(numMerges);
  const table = new MergeTable(slots);
  const find = new TextIndex(texts, index);
  const { bytes, starts } = merges;
  let scratch = Buffer.alloc(1024);
  for (let rank = 0; rank < numMerges; rank++) {
    const start = starts[rank] as number;
    const end = starts[rank + 1] as number;
    if (end - start > scratch.length) scratch = Buffer.alloc(end - start);
    // The first space separates the parts: byte-level text writes a space as another character.
    let space = start;
    while (space < end && bytes[space] !== 0x20) space++;
    const leftLength = space === end ? -1 : decodeAlphabet(bytes, start, space, scratch, 0);
    const rightLength = leftLength < 0 ? -1 : decodeAlphabet(bytes, space + 1, end, scratch, leftLength);
    const length = leftLength + rightLength;
    const left = rightLength < 0 ? -1 : find.find(scratch, 0, leftLength);
    const right = left < 0 ? -1 : find.find(scratch, leftLength, length);
    // Merges mostly come in the order of their results' ids, so the next id is tried before the search.
    let merged = right < 0 ? -1 : last + 1;
    if (right >= 0 && (isFound[merged] !== 1 || !isTextAt(texts, merged, scratch, length)))
      merged = find.find(scratch, 0, length);
    last = merged;
    if (merged >= 0 && table.add(left, right, rank, merged)) continue;
    const merge = decodeUtf8(bytes, start, end);
    if (merged < 0 && isOfControl(merge, control)) continue;
    const what = merged < 0 ? 'not of two tokens into a third' : 'in the list twice';
    throw new TokenizerError(`merge ${rank}, ${JSON.stringify(merge)}, is ${what}`);
  }
  return slots;
}

/**
 * Whether a control token is a part or the result of the merge. Such merges are ignored, so that text never merges into a
 * control token.
 */
function isOfControl(merge: string, control: ReadonlySet<string>): boolean {
  const [left = '', right = ''] = merge.split(' ');
  return control.has(left) || control.has(right) || control.has(left + right);
}
