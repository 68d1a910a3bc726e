import type { Context, Handler } from 'hono';
import * as z from 'zod';
import {
  type BatchRecord,
  type BatchStatus,
  batchEndpoints,
  batchStatuses,
  expiryMs,
  windowNames,
} from '../../batches/batch.ts';
import { ApiError, invalidField, shown } from '../../errors/api-error.ts';
import { callersOf, senderOf, sharerOf } from '../../server/guard/caller.ts';
import { json, type Operation, type RouteDeps } from '../../server/route-group.ts';
import { parseBody } from '../body.ts';
import * as fields from '../fields.ts';
import { readJson } from '../json.ts';
import { get, post } from '../route.ts';
import { fileOperations } from './files.ts';
import { listAnswer, listSchema, pageOf } from './lists.ts';

/** OpenAI's batches. */

const PATH = '/v1/batches';
const PAGE = { limit: 20, most: 100 };
const MAX_METADATA = 16;

const metadata = z
  .record(z.string().max(64), z.string().max(512))
  .superRefine((value, ctx) => {
    const count = Object.keys(value).length;
    fields.refuseMany(ctx, 'metadata', [count, MAX_METADATA], 'pairs', []);
  })
  .meta({ maxProperties: MAX_METADATA });

const createBody = z.strictObject({
  input_file_id: fields.nonEmpty('input_file_id'),
  endpoint: z.enum(batchEndpoints),
  completion_window: z.enum(windowNames),
  metadata: metadata.optional(),
});

const time = z.int().nullable();

const batchSchema = z
  .object({
    id: z.string(),
    object: z.literal('batch'),
    endpoint: z.enum(batchEndpoints),
    errors: z
      .object({
        object: z.literal('list'),
        data: z.array(
          z.object({
            code: z.string(),
            message: z.string(),
            param: z.string().nullable(),
            line: z.int().nullable(),
          }),
        ),
      })
      .nullable(),
    input_file_id: z.string(),
    completion_window: z.enum(windowNames),
    status: z.enum(batchStatuses),
    output_file_id: z.string().nullable(),
    error_file_id: z.string().nullable(),
    created_at: z.int(),
    expires_at: z.int(),
    in_progress_at: time,
    finalizing_at: time,
    completed_at: time,
    failed_at: time,
    expired_at: time,
    cancelling_at: time,
    cancelled_at: time,
    request_counts: z.object({ total: z.int(), completed: z.int(), failed: z.int() }),
    metadata: z.record(z.string(), z.string()).nullable(),
  })
  .meta({ title: 'Batch' });

const BATCH = json('The batch.', batchSchema);

export const batchOperations: readonly Operation[] = [
  ...fileOperations,
  post(PATH, 'Begins to answer the lines of a file', creating, createBody, BATCH),
  get(
    PATH,
    'The batches of this client, the newest first',
    listing,
    json('A list of batches.', listSchema(batchSchema, 'Batches')),
    {
      query: {
        limit: `1 to ${PAGE.most}; ${PAGE.limit} by default.`,
        after: 'The id of the batch before the first one; left out: from the newest.',
      },
    },
  ),
  get(`${PATH}/{id}`, 'One batch, as it is now', describing, BATCH),
  {
    ...{ method: 'post', path: `${PATH}/{id}/cancel`, handler: cancelling },
    summary: 'Ends a batch; the answers that there are stay',
    answers: { 200: BATCH },
  },
];

function creating({ batches, ids }: RouteDeps): Handler {
  return async (c) => {
    const { files } = batches;
    const {
      input_file_id: inputFileId,
      endpoint,
      completion_window: window,
      metadata = null,
    } = parseBody(createBody, await readJson(c));
    const file = files.find(callersOf(c), inputFileId);
    if (file?.purpose !== 'batch') {
      const value = shown(inputFileId);
      const message = `input_file_id must be a file that this client has sent with the purpose "batch" (got ${JSON.stringify(value)})`;
      throw invalidField({ field: 'input_file_id', constraint: 'file', message, value });
    }
    const [owner = ''] = callersOf(c);
    const cacheSalt = Buffer.from(senderOf(c).cacheSalt).toString('hex');
    const id = `batch_${ids.uuid().replaceAll('-', '')}`;
    const batch = { id, owner, sharer: sharerOf(c), cacheSalt, endpoint, inputFileId, window, metadata };
    return c.json(described(await batches.create(batch)));
  };
}

function listing({ batches }: RouteDeps): Handler {
  return (c) => {
    const { order: _none, ...query } = c.req.query();
    return c.json(listAnswer(pageOf(batches.of(callersOf(c)), query, PAGE), described));
  };
}

function describing({ batches }: RouteDeps): Handler {
  return (c) => c.json(described(find(c, batches)));
}

function cancelling({ batches }: RouteDeps): Handler {
  return async (c) => {
    const { id } = find(c, batches);
    const isCancelled = await batches.cancel(id);
    const batch = find(c, batches);
    if (isCancelled || batch.ending === 'cancelled') return c.json(described(batch));
    const message = `The batch ${id} is ${batch.status}, so it cannot be cancelled.`;
    throw new ApiError({ status: 409, code: 'batch_not_cancellable', message, param: 'id' });
  };
}

function find(c: Context, batches: RouteDeps['batches']): BatchRecord {
  const id = c.req.param('id') ?? '';
  // Without a folder for them, the answer says so.
  const batch = batches.files && batches.find(callersOf(c), id);
  if (batch !== undefined) return batch;
  const message = `There is no batch ${JSON.stringify(shown(id))} here: this client has begun none with this id.`;
  throw new ApiError({ status: 404, code: 'batch_not_found', message, param: 'id' });
}

function described(batch: BatchRecord): z.infer<typeof batchSchema> {
  const { createdMs, faults, numLines, numCompleted, numFailed } = batch;
  const at = (status: BatchStatus): number | null => secondsOf(batch.reachedMs[status]);
  return {
    id: batch.id,
    object: 'batch',
    endpoint: batch.endpoint,
    errors: faults === undefined ? null : { object: 'list', data: faults },
    input_file_id: batch.inputFileId,
    completion_window: batch.window,
    status: batch.status,
    output_file_id: batch.outputFileId ?? null,
    error_file_id: batch.errorFileId ?? null,
    created_at: Math.floor(createdMs / 1000),
    expires_at: Math.floor(expiryMs(batch) / 1000),
    in_progress_at: at('in_progress'),
    finalizing_at: at('finalizing'),
    completed_at: at('completed'),
    failed_at: at('failed'),
    expired_at: at('expired'),
    cancelling_at: at('cancelling'),
    cancelled_at: at('cancelled'),
    request_counts: { total: numLines, completed: numCompleted, failed: numFailed },
    metadata: batch.metadata,
  };
}

function secondsOf(ms: number | undefined): number | null {
  return ms === undefined ? null : Math.floor(ms / 1000);
}
