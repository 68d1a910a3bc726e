/** The tokenizer that a tokenizer.json describes, as Hugging Face's tokenizers read it. */
import { crossingsOf } from '../crossings.ts';
import { MergeTable, newMergeSlots } from '../merge-table.ts';
import { type PackedTexts, TextPacker } from '../packed-texts.ts';
import type { AddedToken, TokenizerTables } from '../tables.ts';
import { TextIndex } from '../text-index.ts';
import { TokenizerError } from '../tokenizer-error.ts';
import { byteOfToken, roles, type Vocabulary, vocabularyOf } from '../vocabulary.ts';
import { ranksMax } from '../word-merger.ts';
import { formOf, type TextForm } from './form.ts';
import { surroundingsOf } from './post-processor.ts';
import { type AddedTokenJson, type BpeJson, parseTokenizerJson } from './schema.ts';

export const tokenizerLimits = {
  /** Tokens of a vocabulary; its ids are below. */
  tokens: 2 ** 20,
  merges: 2 ** 22,
} as const;

/** What a folder says beside its tokenizer.json. */
export interface SpecialTokens {
  readonly bosToken: string | undefined;
  readonly eosToken: string | undefined;
  /** Whether BOS comes in front of a text, and EOS behind, where the folder says so. */
  readonly addBos: boolean | undefined;
  readonly addEos: boolean | undefined;
}

/**
 * json: the file, parsed. vocabSize: ids that the model has; those that the tokenizer does not name stand for nothing.
 * Throws TokenizerError.
 */
export function tablesOfTokenizerJson(json: unknown, special: SpecialTokens, vocabSize = 0): TokenizerTables {
  const file = parseTokenizerJson(json);
  const textForm = formOf(file);
  const { form, isNfc } = textForm;
  const tokens = tokensOf(file.model, file.added_tokens, vocabSize);
  const idOf = new Map<string, number>();
  for (const [id, token] of tokens.texts.entries()) if (token !== undefined) idOf.set(token, id);
  const added = file.added_tokens.map((token) => addedToken(token, textForm));
  const isByteLevel = form.kind === 'byte-level';
  const source = packed(tokens.texts);
  const role = rolesOf(tokens, source, added, !isByteLevel);
  const vocabulary = vocabularyOf(source, role, isByteLevel ? 'byte-level' : 'sentencepiece');
  if (!isByteLevel) requireAllBytes(vocabulary);
  const around = surroundingsOf(file.post_processor);
  for (const id of [...around.prefixIds, ...around.suffixIds])
    if (id >= tokens.texts.length)
      throw new TokenizerError(`its post-processor has the token ${id}, which does not exist`);
  const id = (token: string | undefined | null) =>
    token === undefined || token === null ? undefined : idOf.get(token);
  const bosId = id(special.bosToken);
  const eosId = id(special.eosToken);
  return {
    kind: 'hf-json',
    ...vocabulary,
    merges: { kind: 'pairs', slots: mergesOf(file.model, idOf, vocabulary) },
    form: form.kind === 'sentencepiece' ? { ...form, crossings: crossingsOf(vocabulary) } : form,
    isNfc,
    added,
    prefixIds: decided(special.addBos, bosId, around.prefixIds),
    suffixIds: decided(special.addEos, eosId, around.suffixIds),
    bosId,
    eosId,
    unknownId: id(file.model.unk_token),
  };
}

/** A folder that says whether a token is added overrules the post-processor. */
function decided(
  adds: boolean | undefined,
  id: number | undefined,
  given: readonly number[],
): readonly number[] {
  if (adds === undefined || (adds && id === undefined)) return given;
  return adds && id !== undefined ? [id] : [];
}

interface Tokens {
  /** By id; undefined where there is none. */
  readonly texts: readonly (string | undefined)[];
  /** Ids of the model's own vocabulary are those below which this is 1. */
  readonly isOfModel: Uint8Array;
}

function tokensOf(model: BpeJson, added: readonly AddedTokenJson[], vocabSize: number): Tokens {
  const { vocab } = model;
  let isEmpty = true;
  let numTokens = vocabSize;
  const limit = tokenizerLimits.tokens;
  for (const token in vocab) {
    const id = vocab[token];
    isEmpty = false;
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id >= limit)
      throw new TokenizerError(
        `its token ${shown(token)} has the id ${shown(id)}; ids are integers from 0 to ${limit - 1}`,
      );
    if (id >= numTokens) numTokens = id + 1;
  }
  for (const { id, content } of added) {
    if (id >= limit)
      throw new TokenizerError(
        `its added token ${shown(content)} has the id ${id}; at most ${limit - 1} is allowed`,
      );
    numTokens = Math.max(numTokens, id + 1);
  }
  if (isEmpty) throw new TokenizerError('its vocabulary is empty');
  if (vocabSize > 0 && numTokens > vocabSize)
    throw new TokenizerError(
      `its tokenizer has the token ${numTokens - 1}, but its config.json says that the model has ${vocabSize} tokens`,
    );
  const texts = new Array<string | undefined>(numTokens).fill(undefined);
  const isOfModel = new Uint8Array(numTokens);
  for (const token in vocab) {
    const id = vocab[token] as number;
    if (texts[id] !== undefined)
      throw new TokenizerError(`the tokens ${shown(texts[id])} and ${shown(token)} both have the id ${id}`);
    texts[id] = token;
    isOfModel[id] = 1;
  }
  for (const { id, content } of added) {
    if (texts[id] !== undefined && texts[id] !== content)
      throw new TokenizerError(`the tokens ${shown(texts[id])} and ${shown(content)} both have the id ${id}`);
    texts[id] = content;
  }
  return { texts, isOfModel };
}

/** A token written as a chat format's marks are has a meaning beyond text, whatever the file says of it. */
function looksLikeControl(content: string): boolean {
  return /^<[|｜].*[|｜]>$/su.test(content);
}

function addedToken(json: AddedTokenJson, { form, isNfc }: TextForm): AddedToken {
  const { id, content, special, lstrip, rstrip, single_word, normalized } = json;
  const marked = form.kind === 'sentencepiece' && (form.spacePrefix === 'always' || /[ ▁]/.test(content));
  const isControl = special || looksLikeControl(content);
  if (normalized && !isControl && (marked || (isNfc && content.normalize('NFC') !== content)))
    throw new TokenizerError(
      `its added token ${shown(content)} is normalized to another text, which is not supported`,
    );
  return { id, content, isControl, stripsLeft: lstrip, stripsRight: rstrip, isWholeWord: single_word };
}

function rolesOf(
  tokens: Tokens,
  source: PackedTexts,
  added: readonly AddedToken[],
  hasBytes: boolean,
): Uint8Array {
  const role = new Uint8Array(tokens.texts.length);
  for (const [id, text] of tokens.texts.entries()) {
    if (text === undefined) role[id] = roles.control;
    else if (hasBytes && byteOfToken(source, id) >= 0) role[id] = roles.byte;
  }
  for (const { id, isControl } of added)
    role[id] = isControl
      ? roles.control
      : tokens.isOfModel[id] === 1
        ? roles.literalAndOrdinary
        : roles.literal;
  return role;
}

function packed(texts: readonly (string | undefined)[]): PackedTexts {
  const packer = new TextPacker(texts.length, texts.length * 8);
  for (const text of texts) {
    // UTF-8 takes three bytes for a UTF-16 unit at most.
    const { bytes, at } = packer.begin((text?.length ?? 0) * 3);
    packer.end(text === undefined ? 0 : Buffer.from(bytes.buffer).write(text, at));
  }
  return packer.finish();
}

/** What is neither a token nor made of bytes would become the unknown token, however long it is. */
function requireAllBytes({ texts, index, byteIds }: Vocabulary): void {
  const characters = new TextIndex(texts, index);
  const byte = byteIds.findIndex((id, value) => {
    return id === -1 && (value >= 0x80 || characters.find(Uint8Array.of(value), 0, 1) === -1);
  });
  if (byte < 0) return;
  const name = `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
  throw new TokenizerError(`it has byte_fallback, but its vocabulary has no token ${name}`);
}

/** Text becomes no control token by merging: a merge that has to do with one is left out. */
function mergesOf(
  { merges }: BpeJson,
  idOf: ReadonlyMap<string, number>,
  vocabulary: Vocabulary,
): Int32Array {
  const limit = Math.min(tokenizerLimits.merges, ranksMax);
  if (merges.length > limit)
    throw new TokenizerError(`it has ${merges.length} merges; at most ${limit} are allowed`);
  const slots = newMergeSlots(merges.length);
  const table = new MergeTable(slots);
  const { texts, isControl } = vocabulary;
  const { bytes, starts } = texts;
  const index = new TextIndex(texts, vocabulary.index);
  for (const [rank, merge] of merges.entries()) {
    const [leftText, rightText] = partsOfMerge(merge);
    const left = idOf.get(leftText) ?? -1;
    const right = idOf.get(rightText) ?? -1;
    const isKnown = left >= 0 && right >= 0;
    const rightStart = starts[right] as number;
    const merged = isKnown
      ? index.findJoined(
          bytes,
          starts[left] as number,
          starts[left + 1] as number,
          bytes,
          rightStart,
          starts[right + 1] as number,
        )
      : -1;
    if (merged >= 0 && isControl[left] === 0 && isControl[right] === 0) {
      if (table.add(left, right, rank, merged)) continue;
      throw new TokenizerError(`merge ${rank}, ${shown(merge)}, is there twice`);
    }
    if (!isKnown || !idOf.has(leftText + rightText))
      throw new TokenizerError(`merge ${rank}, ${shown(merge)}, is not of two tokens into a third`);
  }
  return slots;
}

/** "left right", or both apart; empty where it is neither. */
function partsOfMerge(merge: unknown): readonly [string, string] {
  if (Array.isArray(merge) && merge.length === 2) return [String(merge[0]), String(merge[1])];
  if (typeof merge !== 'string') return ['', ''];
  const space = merge.indexOf(' ');
  return [merge.slice(0, space), merge.slice(space + 1)];
}

function shown(value: unknown): string {
  return (JSON.stringify(value) ?? String(value)).slice(0, 80);
}
