/** Makes the tables of the tokenizer that a tokenizer.json describes, read as Hugging Face's tokenizers library reads it. */
import { packAddedTokens } from '../added-tokens.ts';
import { newMergeSlots } from '../merges.ts';
import { type PackedTexts, TextIndex, TextPacker } from '../packed-texts.ts';
import { crossingsOf } from '../sentencepiece.ts';
import { type AddedToken, TokenizerError, type TokenizerTables } from '../tables.ts';
import { TextChanges } from '../text-changes.ts';
import { finish } from '../tokenizer.ts';
import { unigramVocabulary, unknownScoreOf } from '../unigram.ts';
import { byteOfToken, roles, type Vocabulary, vocabularyOf } from '../vocabulary.ts';
import { wordPieceVocabulary } from '../wordpiece.ts';
import { formOf, surroundingsOf, type TextForm } from './form.ts';
import { largePartsOf } from './large-parts.ts';
import { mergesOf } from './merges.ts';
import { type AddedTokenJson, parseTokenizerJson, shown } from './schema.ts';
import { type TokenEntries, tokensMax } from './token-entries.ts';

/** What other files of the folder say about special tokens. */
export interface SpecialTokens {
  readonly bosToken: string | undefined;
  readonly eosToken: string | undefined;
  /** Whether BOS is put in front of a text and EOS behind it. Undefined if the folder does not say. */
  readonly addBos: boolean | undefined;
  readonly addEos: boolean | undefined;
}

/**
 * bytes: the file, valid UTF-8. vocabSize: the number of ids of the model; ids that the tokenizer does not name stand for
 * nothing. Throws TokenizerError, or the SyntaxError of JSON.parse.
 */
export function tablesOfTokenizerJson(bytes: Buffer, special: SpecialTokens, vocabSize = 0): TokenizerTables {
  const { rest, entries, scores = new Float64Array(), merges } = largePartsOf(bytes);
  const file = parseTokenizerJson(rest);
  const { model } = file;
  const textForm = formOf(file);
  const { form, isNfc } = textForm;
  const tokens = tokensOf(entries, file.added_tokens, vocabSize);
  const { entryOf } = tokens;
  const added = file.added_tokens.map((token) => addedToken(token, textForm));
  const source = packedTexts(tokens);
  const hasBytes =
    form.kind === 'sentencepiece' || (model.type === 'Unigram' && model.byte_fallback === true);
  const role = rolesOf(tokens, source, added, hasBytes);
  const id = (token: string | undefined | null) => {
    const entry = token === undefined || token === null ? -1 : entries.findText(token);
    return entry === -1 ? undefined : entries.idOf(entry);
  };
  const unknownId = model.type === 'Unigram' ? model.unk_id : id(model.unk_token);
  const vocabulary =
    form.kind === 'wordpiece'
      ? wordPieceVocabulary(source, role, 'hashes', unknownId)
      : form.kind === 'unigram'
        ? unigramVocabulary(source, role, unknownId)
        : vocabularyOf(source, role, form.kind);
  if (form.kind === 'sentencepiece') requireAllBytes(vocabulary);
  const around = surroundingsOf(file.post_processor);
  const { prefixIds, betweenIds = [], suffixIds } = { ...around, ...around.pair };
  for (const id of [...around.prefixIds, ...around.suffixIds, ...prefixIds, ...betweenIds, ...suffixIds])
    if (id >= entryOf.length)
      throw new TokenizerError(`its post-processor has the token ${id}, which does not exist`);
  const bosId = id(special.bosToken);
  const eosId = id(special.eosToken);
  const slots = merges === undefined ? newMergeSlots(0) : mergesOf(bytes, merges, entries, role, vocabulary);
  return {
    kind: 'hf-json',
    ...vocabulary,
    merges: { kind: 'pairs', slots },
    form:
      form.kind === 'sentencepiece'
        ? { ...form, crossings: crossingsOf(vocabulary) }
        : form.kind === 'unigram'
          ? { ...form, scores, unknownScore: unknownScoreOf(scores) }
          : form,
    isNfc,
    added: packAddedTokens(added),
    prefixIds: decided(special.addBos, bosId, around.prefixIds),
    suffixIds: decided(special.addEos, eosId, around.suffixIds),
    pair: around.pair,
    bosId,
    eosId,
    unknownId,
  };
}

/** If the folder says whether a token is added, this overrides the post-processor. */
function decided(
  adds: boolean | undefined,
  id: number | undefined,
  given: readonly number[],
): readonly number[] {
  if (adds === undefined || (adds && id === undefined)) return given;
  return adds && id !== undefined ? [id] : [];
}

/** A token written like the marks of chat formats has a meaning beyond text, whatever the file says. */
function looksLikeControl(content: string): boolean {
  return /^<[|｜].*[|｜]>$/su.test(content);
}

function addedToken(json: AddedTokenJson, { form, isNfc }: TextForm): AddedToken {
  const { id, content, special, lstrip, rstrip, single_word, normalized } = json;
  const marked = form.kind === 'sentencepiece' && (form.spacePrefix === 'always' || /[ ▁]/.test(content));
  const isControl = special || looksLikeControl(content);
  if (normalized && form.kind === 'wordpiece')
    throw new TokenizerError(
      `its added token ${shown(content)} is searched in normalized text, which is not supported with WordPiece`,
    );
  const isChanged =
    form.kind === 'unigram'
      ? /[ ▁]/.test(content) ||
        finish(new TextChanges(form.changes, form.charsmap).apply(content)) !== content
      : marked || (isNfc && content.normalize('NFC') !== content);
  if (normalized && !isControl && isChanged)
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
  const role = new Uint8Array(tokens.entryOf.length);
  for (let id = 0; id < role.length; id++) {
    if (tokens.entryOf[id] === -1) role[id] = roles.control;
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

/** Throws if a byte has no token. Text with such a byte would become the unknown token, however long it is. */
function requireAllBytes({ texts, index, byteIds }: Vocabulary): void {
  const characters = new TextIndex(texts, index);
  const byte = byteIds.findIndex((id, value) => {
    return id === -1 && (value >= 0x80 || characters.find(Uint8Array.of(value), 0, 1) === -1);
  });
  if (byte < 0) return;
  const name = `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`;
  throw new TokenizerError(`it has byte_fallback, but its vocabulary has no token ${name}`);
}

const none = -1;

export interface Tokens {
  readonly entries: TokenEntries;
  /** The entry of each id; -1 for an id without a token. */
  readonly entryOf: Int32Array;
  /** For each id: 1 if it is in the model's own vocabulary. */
  readonly isOfModel: Uint8Array;
}

/**
 * Finds the text that each id of a tokenizer.json stands for. entries: the vocabulary, to which the added tokens are added.
 * vocabSize: the number of ids of the model, which no id may reach; 0 if it is unknown. Throws TokenizerError.
 */
export function tokensOf(entries: TokenEntries, added: readonly AddedTokenJson[], vocabSize: number): Tokens {
  const numOfModel = entries.length;
  let numTokens = vocabSize;
  for (let entry = 0; entry < numOfModel; entry++) numTokens = Math.max(numTokens, entries.idOf(entry) + 1);
  for (const { id, content } of added) {
    if (id >= tokensMax)
      throw new TokenizerError(
        `its added token ${shown(content)} has the id ${id}; at most ${tokensMax - 1} is allowed`,
      );
    numTokens = Math.max(numTokens, id + 1);
  }
  if (numOfModel === 0) throw new TokenizerError('its vocabulary is empty');
  if (vocabSize > 0 && numTokens > vocabSize)
    throw new TokenizerError(
      `its tokenizer has the token ${numTokens - 1}, but its config.json says that the model has ${vocabSize} tokens`,
    );
  const entryOf = new Int32Array(numTokens).fill(none);
  const isOfModel = new Uint8Array(numTokens);
  for (let entry = 0; entry < numOfModel; entry++) {
    const id = entries.idOf(entry);
    const other = entryOf[id] as number;
    if (other !== none) throw bothHaveId(entries, other, entries.textOf(entry), id);
    entryOf[id] = entry;
    isOfModel[id] = 1;
  }
  for (const { id, content } of added) {
    const other = entryOf[id] as number;
    if (other !== none && entries.textOf(other) !== content) throw bothHaveId(entries, other, content, id);
    // A text with several ids gets the highest of them when it is looked up.
    const found = entries.findText(content);
    entryOf[id] = entries.putText(content, Math.max(id, found === none ? none : entries.idOf(found)));
  }
  return { entries, entryOf, isOfModel };
}

/** The text of each id, empty for an id without a token. */
function packedTexts({ entries, entryOf }: Tokens): PackedTexts {
  const packer = new TextPacker(entryOf.length, entryOf.length * 8);
  for (const entry of entryOf) {
    if (entry === none) {
      packer.begin(0);
      packer.end(0);
      continue;
    }
    const { bytes, at } = packer.begin(entries.lengthOf(entry));
    packer.end(entries.copyTo(entry, bytes, at));
  }
  return packer.finish();
}

function bothHaveId(entries: TokenEntries, one: number, other: string, id: number): TokenizerError {
  return new TokenizerError(
    `the tokens ${shown(entries.textOf(one))} and ${shown(other)} both have the id ${id}`,
  );
}
