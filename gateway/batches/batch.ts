import * as z from 'zod';
import { callerSchema } from '../journal/records.ts';

/** What is kept of a batch besides its files. */

const hourMs = 3_600_000;

/** How long a batch may have from its creation. OpenAI's is 24h; `runnel batch`, which nobody waits for, takes the longer one. */
export const windows = { '24h': 24 * hourMs, '365d': 365 * 24 * hourMs } as const;
export const windowNames = ['24h', '365d'] as const satisfies (keyof typeof windows)[];

/** The routes that a line may ask. */
export const batchEndpoints = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/embeddings',
  '/v1/responses',
] as const;
export type BatchEndpoint = (typeof batchEndpoints)[number];

const ms = z.number();

export const batchStatuses = [
  'validating',
  'failed',
  'in_progress',
  'finalizing',
  'completed',
  'expired',
  'cancelling',
  'cancelled',
] as const;
export type BatchStatus = (typeof batchStatuses)[number];

const faultSchema = z.strictObject({
  code: z.string(),
  message: z.string(),
  param: z.string().nullable(),
  line: z.int().nullable(),
});

export const batchRecordSchema = z.strictObject({
  id: z.string(),
  /** As in callersOf(). A caller cannot find the batches of others. */
  owner: z.string(),
  /** Whose share of the server it takes. */
  sharer: callerSchema,
  /** In hexadecimal digits. */
  cacheSalt: z.string(),
  endpoint: z.enum(batchEndpoints),
  inputFileId: z.string(),
  window: z.enum(windowNames).default('24h'),
  metadata: z.record(z.string(), z.string()).nullable(),
  status: z.enum(batchStatuses),
  /** What it comes to when it is finalized. */
  ending: z.enum(['completed', 'expired', 'cancelled']).optional(),
  numLines: z.int().default(0),
  /** Of a batch that has ended; before that, its results are counted. */
  numCompleted: z.int().default(0),
  numFailed: z.int().default(0),
  outputFileId: z.string().optional(),
  errorFileId: z.string().optional(),
  faults: z.array(faultSchema).optional(),
  /** When it came to each status, in milliseconds since 1970. */
  createdMs: ms,
  reachedMs: z.partialRecord(z.enum(batchStatuses), ms).default({}),
});
export type BatchRecord = Readonly<z.output<typeof batchRecordSchema>>;

const ENDED: readonly BatchStatus[] = ['failed', 'completed', 'expired', 'cancelled'];

export function hasEnded({ status }: BatchRecord): boolean {
  return ENDED.includes(status);
}

export function expiryMs({ createdMs, window }: BatchRecord): number {
  return createdMs + windows[window];
}
