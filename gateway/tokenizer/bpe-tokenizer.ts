/**
 * Byte pair encoding, WordPiece or Unigram with the tables of a vocabulary. Added tokens are cut out first. The rest is
 * normalized and cut into words. With byte pair encoding the symbols of each word merge into tokens, with WordPiece each word is
 * cut into the longest tokens, and with Unigram into those with the best scores. The ids equal those of the tokenizer that the
 * model was trained with.
 */
import { AddedTokens, type TextSegment, unpackAddedTokens } from './added-tokens.ts';
import { MergeTable, ScoreMergeFinder } from './merges.ts';
import { bytesAt, TextIndex } from './packed-texts.ts';
import { leastWords } from './pre-tokenizers/bert.ts';
import { SentencePieceWords } from './sentencepiece.ts';
import {
  type AddedToken,
  type PairTemplate,
  spaceMark,
  type TokenizerKind,
  type TokenizerTables,
} from './tables.ts';
import { TextChanges } from './text-changes.ts';
import {
  type EncodedText,
  type EncodeOptions,
  type EncodeTextsOptions,
  finish,
  type LongTextEncoder,
  type Steps,
  shortTextChars,
  type Tokenizer,
} from './tokenizer.ts';
import { UnigramWords } from './unigram.ts';
import { WordMerger } from './word-merger.ts';
import { WordPieceWords } from './wordpiece.ts';
import { ByteLevelWords, type Words } from './words.ts';

export class BpeTokenizer implements Tokenizer {
  readonly #tables: TokenizerTables;
  readonly #longTexts: LongTextEncoder | undefined;
  readonly #added: AddedTokens;
  readonly #words: Words;
  /** For Unigram. */
  readonly #changes: TextChanges | undefined;
  /** The most words that the literal of one token counts for in a lower bound. */
  readonly #wordsOfLiteral: number;
  readonly controlLiterals: readonly string[];
  /**
   * Bytes that have no token. Usual vocabularies lack some that hardly occur, such as 0x04 or 0xf5. In byte-level text these
   * bytes give no id, as with the tokenizer that the model was trained with.
   */
  readonly missingBytes: readonly number[];

  /** longTexts: encodes what encodeTexts() gets, unless it is short. Throws TokenizerError. */
  static async of(tables: TokenizerTables, longTexts?: LongTextEncoder): Promise<BpeTokenizer> {
    const added = await unpackAddedTokens(tables.added);
    return new BpeTokenizer(tables, added, await AddedTokens.of(added), longTexts);
  }

  private constructor(
    tables: TokenizerTables,
    added: readonly AddedToken[],
    finder: AddedTokens,
    longTexts: LongTextEncoder | undefined,
  ) {
    this.#tables = tables;
    this.#longTexts = longTexts;
    this.#added = finder;
    this.controlLiterals = added.filter(({ isControl }) => isControl).map(({ content }) => content);
    const index = new TextIndex(tables.texts, tables.index);
    this.#words = wordsOf(tables, index);
    const { form } = tables;
    this.#changes = form.kind === 'unigram' ? new TextChanges(form.changes, form.charsmap) : undefined;
    this.#wordsOfLiteral =
      form.kind === 'wordpiece'
        ? added.reduce((most, { content }) => Math.max(most, leastWords(content, form)), 1)
        : 1;
    this.missingBytes = [...tables.byteIds.keys()].filter(
      (byte) => tables.byteIds[byte] === -1 && (byte >= 0x80 || index.find(Uint8Array.of(byte), 0, 1) === -1),
    );
  }

  get kind(): TokenizerKind {
    return this.#tables.kind;
  }

  get vocabSize(): number {
    return this.#tables.isControl.length;
  }

  get bosId(): number | undefined {
    return this.#tables.bosId;
  }

  get eosId(): number | undefined {
    return this.#tables.eosId;
  }

  get pair(): PairTemplate | undefined {
    return this.#tables.pair;
  }

  encode(text: string, options: EncodeOptions): number[] {
    return finish(this.encodeSegments([{ text, parseSpecial: options.parseSpecial }], options.addSpecial));
  }

  async encodeTexts(
    texts: readonly string[],
    options: EncodeTextsOptions,
    signal?: AbortSignal,
  ): Promise<readonly EncodedText[]> {
    const length = texts.reduce((sum, text) => sum + text.length, 0);
    if (length <= shortTextChars || this.#longTexts === undefined)
      return finish(this.encodeInSteps(texts, options));
    return this.#longTexts.encode(texts, options, signal);
  }

  close(): void {
    this.#longTexts?.close();
  }

  /** Does the same as encodeTexts(), here and in steps. */
  *encodeInSteps(
    texts: readonly string[],
    { addSpecial, parseSpecial, maxTokens = Number.POSITIVE_INFINITY }: EncodeTextsOptions,
  ): Steps<EncodedText[]> {
    const encoded: EncodedText[] = [];
    for (const text of texts) {
      const leastTokens = maxTokens === Number.POSITIVE_INFINITY ? 0 : this.leastTokens(text);
      if (leastTokens > maxTokens) return [...encoded, { leastTokens }];
      encoded.push(yield* this.encodeSegments([{ text, parseSpecial }], addSpecial));
      yield;
    }
    return encoded;
  }

  /** Returns the ids of a prompt in parts, some of which may write control tokens. */
  *encodeSegments(segments: readonly TextSegment[], addSpecial: boolean): Steps<number[]> {
    const { prefixIds, suffixIds, isNfc } = this.#tables;
    const ids: number[] = addSpecial ? [...prefixIds] : [];
    const pieces = yield* this.#added.cut(segments);
    for (const [index, piece] of pieces.entries()) {
      if (piece.token !== undefined) {
        ids.push(piece.token.id);
        continue;
      }
      const composed = isNfc ? piece.text.normalize('NFC') : piece.text;
      const text = this.#changes === undefined ? composed : yield* this.#changes.apply(composed);
      if (text !== '') yield* this.#words.encode(this.#spacePrefix(text, index) + text, ids);
      yield;
    }
    if (addSpecial) ids.push(...suffixIds);
    return ids;
  }

  /** The space that SentencePiece puts in front of a text, which is the piece at `index`, or ''. */
  #spacePrefix(text: string, index: number): string {
    const { form } = this.#tables;
    if (!('spacePrefix' in form) || form.spacePrefix === 'never') return '';
    if (form.spacePrefix === 'always') return ' ';
    if (form.spacePrefix === 'first-unless-space' && index > 0) return '';
    return /^[ ▁]/.test(text) ? '' : ' ';
  }

  leastTokens(text: string): number {
    const { byteIds, isNfc, form, maxTokenBytes } = this.#tables;
    if (form.kind === 'wordpiece') return Math.ceil(leastWords(text, form) / this.#wordsOfLiteral);
    // One unknown token may stand for any number of characters, and a normalizer may remove some.
    if (form.kind === 'unigram') return 0;
    let kept = isNfc ? text.normalize('NFC') : text;
    if (this.#added.strip) kept = kept.replace(/\s+/g, '');
    if (form.kind === 'sentencepiece') {
      // One unknown token, or none, may stand for any number of characters that have no token.
      if (this.missingBytes.length > 0) return 0;
      kept = kept.replaceAll(spaceMark, ' ');
    }
    let bytes = Buffer.byteLength(kept);
    if (this.missingBytes.length > 0) for (const byte of Buffer.from(kept)) if (byteIds[byte] === -1) bytes--;
    return Math.ceil(bytes / maxTokenBytes);
  }

  bytes(id: number): Uint8Array {
    if (!Number.isInteger(id) || id < 0 || id >= this.vocabSize)
      throw new RangeError(`The token ${id} is outside the vocabulary of ${this.vocabSize}.`);
    return bytesAt(this.#tables.texts, id).slice();
  }

  isControl(id: number): boolean {
    return this.#tables.isControl[id] === 1;
  }

  get addsSpace(): boolean {
    const { form } = this.#tables;
    if (form.kind === 'wordpiece') return true;
    return 'spacePrefix' in form && form.spacePrefix !== 'never';
  }
}

function wordsOf(tables: TokenizerTables, index: TextIndex): Words {
  const { texts, form, merges } = tables;
  if (form.kind === 'wordpiece') return new WordPieceWords(tables, form, index);
  if (form.kind === 'unigram') return new UnigramWords(tables, form, index);
  const merger = new WordMerger(
    merges.kind === 'pairs' ? new MergeTable(merges.slots) : new ScoreMergeFinder(texts, index, merges.ranks),
  );
  return form.kind === 'byte-level'
    ? new ByteLevelWords(tables, form, index, merger)
    : new SentencePieceWords(tables, form, index, merger);
}
