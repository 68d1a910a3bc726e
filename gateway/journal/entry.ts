import { ANONYMOUS } from '../system/caller.ts';
import type { JobRecord } from './records.ts';
import type { Holding } from './room.ts';
import { SEAL_BYTES, type Write } from './store.ts';

/** A job as the journal knows it without its content: its name, the keys of its records, and its size. */

/** A piece is written again with the tokens that follow until it has this many. */
export const TOKENS_PER_PIECE = 32;
/** Upper bounds: of a piece without its tokens, with key and seal; of one token's id; of the start and the end of a job. */
const BYTES_PER_PIECE = 64;
const BYTES_PER_ID = 5;
const BYTES_PER_JOB = 1024;
/** Additional bytes for each log-probability: that of the token and those of its alternatives. */
const BYTES_PER_LOGPROB = 20;

/** What is known of a kept job without reading it from the disk. */
export interface JournalEntry {
  readonly key: string;
  readonly caller: string;
  readonly id: string;
  readonly createdMs: number;
  /** Same as JobRecord.idempotency.key. */
  readonly idempotencyKey: string | undefined;
  /** Milliseconds since 1970; undefined while the job has not ended. */
  readonly endedMs: number | undefined;
}

export interface Entry extends JournalEntry, Holding {
  endedMs: number | undefined;
  numBytes: number;
  reservedBytes: number;
}

const NUMBER_DIGITS = 12;
/**
 * The length of a job's key. The letter after it says what the entry is: r the record, s the start, t a piece, u whether it is
 * parked, z the end.
 */
export const KEY_LENGTH = 2 + NUMBER_DIGITS + 1;
const KINDS = 'rstuz';

export function keyOf(number: number): string {
  return `j/${String(number).padStart(NUMBER_DIGITS, '0')}/`;
}

/** The key of the piece that begins at this token. Keys sort in the order of the tokens. */
export function pieceKey({ key }: Pick<JournalEntry, 'key'>, from: number): string {
  return `${key}t${String(from).padStart(NUMBER_DIGITS, '0')}`;
}

/** Whether the entry with this key is of a kind that this version knows. */
export function isKnown(key: string): boolean {
  return KINDS.includes(key.charAt(KEY_LENGTH));
}

export function startKey({ key }: Pick<JournalEntry, 'key'>): string {
  return `${key}s`;
}

export function parkingKey({ key }: Pick<JournalEntry, 'key'>): string {
  return `${key}u`;
}

export function endKey({ key }: Pick<JournalEntry, 'key'>): string {
  return `${key}z`;
}

/** A caller is empty or a fixed number of hexadecimal digits, so two jobs never share a name. */
export function nameOf({ caller, id }: Pick<JournalEntry, 'caller' | 'id'>): string {
  return `${caller} ${id}`;
}

export function entryOf(key: string, record: JobRecord, recordBytes: number): Entry {
  const { caller, id, createdMs, idempotency, request } = record;
  return {
    ...{ key, caller, id, createdMs, idempotencyKey: idempotency?.key },
    sharer: request.caller ?? ANONYMOUS,
    ...{ endedMs: undefined, numBytes: 0, reservedBytes: mostBytes(record, recordBytes) },
  };
}

/** The bytes that a job may grow to. recordBytes: the size of its record. */
function mostBytes({ request: { maxTokens, topLogprobs } }: JobRecord, recordBytes: number): number {
  const perToken =
    topLogprobs === undefined
      ? BYTES_PER_ID + BYTES_PER_PIECE / TOKENS_PER_PIECE
      : BYTES_PER_ID + BYTES_PER_PIECE + BYTES_PER_LOGPROB * (1 + topLogprobs);
  return recordBytes + BYTES_PER_JOB + maxTokens * perToken;
}

export function bytesOf(write: Write): number {
  return write.key.length + (write.type === 'put' ? SEAL_BYTES + write.value.length : 0);
}
