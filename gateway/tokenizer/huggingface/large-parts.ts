/**
 * Reads a tokenizer.json in three parts. Vocabulary and merges, which are nearly all of it, are read from the bytes of the
 * file; the rest goes through JSON.parse.
 */
import { decodeUtf8 } from '../packed-texts.ts';
import { JsonBytes, JsonFault } from './json-bytes.ts';
import { type MergeEntries, readMerges } from './merges.ts';
import { readScores, readVocab, type ScoredEntries, TokenEntries } from './token-entries.ts';

export interface LargeParts {
  /** The file with its vocabulary and its merges emptied, if it has them. */
  readonly rest: unknown;
  /**
   * Empty if the file has neither an object nor an array "vocab"; scores: undefined unless it is an array; merges: undefined if
   * the file has no array "merges". What it has instead is in `rest`.
   */
  readonly entries: TokenEntries;
  readonly scores: Float64Array | undefined;
  readonly merges: MergeEntries | undefined;
}

/** A range of the file's bytes and what was read from it. */
interface Part<Content> {
  readonly start: number;
  readonly end: number;
  readonly content: Content;
}

interface Found {
  vocab?: Part<Pick<ScoredEntries, 'entries'> & Partial<ScoredEntries>> | undefined;
  /** Has no content if the vocabulary had not come yet. */
  merges?: Part<MergeEntries | undefined> | undefined;
}

const byteOrderMark = Buffer.from('\uFEFF');

/** bytes: valid UTF-8. Throws TokenizerError, or the SyntaxError of JSON.parse. */
export function largePartsOf(bytes: Buffer): LargeParts {
  try {
    return readParts(bytes);
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error;
    JSON.parse(bytes.toString('utf8', startOf(bytes)));
    throw new Error('JSON.parse accepts a tokenizer.json that JsonBytes refuses.', { cause: error });
  }
}

function readParts(bytes: Buffer): LargeParts {
  const start = startOf(bytes);
  const { vocab, merges } = findParts(new JsonBytes(bytes, start));
  let text = '';
  let at = start;
  for (const part of [vocab, merges].sort((one, other) => (one?.start ?? 0) - (other?.start ?? 0))) {
    if (part === undefined) continue;
    text +=
      bytes.toString('utf8', at, part.start) +
      (part === vocab && vocab?.content.scores === undefined ? '{}' : '[]');
    at = part.end;
  }
  text += bytes.toString('utf8', at);
  const entries = vocab?.content.entries ?? new TokenEntries();
  return {
    rest: parsed(text),
    entries,
    scores: vocab?.content.scores,
    // Merges in front of the vocabulary are read only now.
    merges: merges && (merges.content ?? readMerges(new JsonBytes(bytes, merges.start), entries)),
  };
}

/** If a key occurs twice, the last one counts, as with JSON.parse. */
function findParts(json: JsonBytes): Found {
  let found: Found = {};
  const part = <Content>(read: () => Content): Part<Content> => {
    const start = json.at;
    const content = read();
    return { start, end: json.at, content };
  };
  const inModel = (key: string): void => {
    if (key === 'vocab') {
      found.vocab = json.startsObject
        ? part(() => ({ entries: readVocab(json) }))
        : json.startsArray
          ? part(() => readScores(json))
          : undefined;
      if (found.merges !== undefined) found.merges = { ...found.merges, content: undefined };
      if (found.vocab === undefined) json.skip();
    } else if (key === 'merges' && json.startsArray) {
      const entries = found.vocab?.content.entries;
      found.merges = part(() => {
        if (entries !== undefined) return readMerges(json, entries);
        json.skip();
        return undefined;
      });
    } else {
      if (key === 'merges') found.merges = undefined;
      json.skip();
    }
  };
  const inFile = (key: string): void => {
    const isModel = key === 'model';
    if (isModel) found = {};
    if (isModel && json.startsObject) members(json, inModel);
    else json.skip();
  };
  if (json.startsObject) members(json, inFile);
  return found;
}

function members(json: JsonBytes, onMember: (key: string) => void): void {
  json.object(({ bytes, start, end }) => onMember(decodeUtf8(bytes, start, end)));
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new JsonFault('', { cause: error });
  }
}

function startOf(bytes: Buffer): number {
  return bytes.subarray(0, byteOrderMark.length).equals(byteOrderMark) ? byteOrderMark.length : 0;
}
