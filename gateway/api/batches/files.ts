import { type FileHandle, open } from 'node:fs/promises';
import type { Context, Handler } from 'hono';
import * as z from 'zod';
import { type FileWriter, fileTooLarge, type StoredFile } from '../../batches/file-store.ts';
import { ApiError, invalidField, shown, unsupported } from '../../errors/api-error.ts';
import { callersOf, sharerOf } from '../../server/guard/caller.ts';
import { failureLog } from '../../server/request-log.ts';
import { json, type Operation, type RouteDeps } from '../../server/route-group.ts';
import { ResponseStream } from '../../server/streams/response-stream.ts';
import { respondInPieces } from '../long-answer.ts';
import { get } from '../route.ts';
import { type FormParts, readForm } from './form.ts';
import { listAnswer, listSchema, pageOf } from './lists.ts';

/** OpenAI's files: inputs of batches, and what batches have written. */

export const FILES_PATH = '/v1/files';
/** What a form may have besides its file. */
const MAX_FORM_BYTES = 2 ** 16;
const PIECE_BYTES = 2 ** 14;
const CONTENT_TYPE = 'application/octet-stream';
const MAX_LISTED = 10_000;

const fileSchema = z
  .object({
    id: z.string(),
    object: z.literal('file'),
    bytes: z.int(),
    created_at: z.int(),
    expires_at: z.null(),
    filename: z.string(),
    purpose: z.enum(['batch', 'batch_output']),
    status: z.literal('processed'),
  })
  .meta({ title: 'File' });

const deletedSchema = z
  .object({ id: z.string(), object: z.literal('file'), deleted: z.literal(true) })
  .meta({ title: 'DeletedFile' });

/** For the document: the body is read by form.ts. */
const formSchema = z.object({
  file: z.string().meta({ format: 'binary' }),
  purpose: z.literal('batch'),
});

export const fileOperations: readonly Operation[] = [
  {
    ...{ method: 'post', path: FILES_PATH, handler: sending, body: formSchema, isForm: true },
    summary: 'Keeps a file for a batch',
    answers: { 200: json('The file.', fileSchema) },
  },
  get(
    FILES_PATH,
    'The files of this client',
    listing,
    json('A list of files.', listSchema(fileSchema, 'Files')),
    {
      query: {
        purpose: 'batch or batch_output: only those.',
        limit: `1 to ${MAX_LISTED}; ${MAX_LISTED} by default.`,
        order: 'desc, the newest first, or asc; desc by default.',
        after: 'The id of the file before the first one; left out: from the beginning.',
      },
    },
  ),
  get(`${FILES_PATH}/{id}`, 'One file', describing, json('The file.', fileSchema)),
  get(`${FILES_PATH}/{id}/content`, 'What a file has in it', reading, {
    description: 'The bytes of the file.',
    content: { [CONTENT_TYPE]: { whole: z.string().meta({ format: 'binary' }) } },
  }),
  {
    ...{ method: 'delete', path: `${FILES_PATH}/{id}`, handler: deleting },
    summary: 'Deletes a file',
    answers: { 200: json('id, object and deleted.', deletedSchema) },
  },
];

function sending({ batches, ids }: RouteDeps): Handler {
  return async (c) => {
    const { files } = batches;
    const length = Number(c.req.header('content-length') ?? 0);
    if (length > files.maxFileBytes + MAX_FORM_BYTES) throw fileTooLarge(files.maxFileBytes);
    const [owner = ''] = callersOf(c);
    const file = { id: `file-${ids.uuid().replaceAll('-', '')}`, owner, sharer: sharerOf(c) };
    const sent = new SentFile((filename) => files.begin({ ...file, filename, purpose: 'batch' }));
    try {
      await readForm(c.req.header('content-type') ?? '', c.req.raw.body ?? new Blob().stream(), sent);
      return c.json(described(await sent.keep()));
    } finally {
      await sent.discard();
    }
  };
}

/** The file of a form with its purpose, in any order. */
class SentFile implements FormParts {
  readonly #begin: (filename: string) => Promise<FileWriter>;
  #writer: FileWriter | undefined;
  #hasPurpose = false;

  constructor(begin: (filename: string) => Promise<FileWriter>) {
    this.#begin = begin;
  }

  field(name: string, value: string): void {
    if (name !== 'purpose') throw notSupported(name);
    this.#hasPurpose = true;
    if (value === 'batch') return;
    const message = `purpose must be "batch", the only one here (got ${JSON.stringify(shown(value))})`;
    throw invalidField({ field: name, constraint: 'one_of(batch)', message, value: shown(value) });
  }

  async file(name: string, filename: string): Promise<(bytes: Uint8Array) => Promise<void>> {
    if (name !== 'file') throw notSupported(name);
    if (this.#writer !== undefined) throw unsupported(name, 'file is there twice; send each file by itself');
    const writer = await this.#begin(filename);
    this.#writer = writer;
    return (bytes) => writer.write(bytes);
  }

  keep(): Promise<StoredFile> {
    if (this.#writer === undefined) throw missingField('file');
    if (!this.#hasPurpose) throw missingField('purpose');
    return this.#writer.keep();
  }

  async discard(): Promise<void> {
    await this.#writer?.discard();
  }
}

function notSupported(name: string): ApiError {
  return unsupported(shown(name), `${shown(name)} is not supported; leave it out`);
}

function missingField(field: string): ApiError {
  return invalidField({ field, constraint: 'required', message: `${field} is required` });
}

function listing({ batches }: RouteDeps): Handler {
  return (c) => {
    const { purpose, ...query } = c.req.query();
    const files = batches.files.of(callersOf(c));
    const wanted = purpose === undefined ? files : files.filter((file) => file.purpose === purpose);
    return c.json(listAnswer(pageOf(wanted, query, { limit: MAX_LISTED, most: MAX_LISTED }), described));
  };
}

function describing({ batches }: RouteDeps): Handler {
  return (c) => c.json(described(find(c, batches)));
}

function reading({ batches, log }: RouteDeps): Handler {
  return async (c) => {
    const handle = await open(batches.files.pathOf(find(c, batches)), 'r');
    const stream = new ResponseStream(c, CONTENT_TYPE, { encoding: 'latin1' });
    const onBroken = failureLog(log, c);
    // The read under way ends before.
    const close = (): void => void handle.close().catch(onBroken);
    return respondInPieces(stream, piecesOf(handle), onBroken, close);
  };
}

/** The bytes of a file, each as a character. */
async function* piecesOf(handle: FileHandle): AsyncGenerator<string, undefined> {
  const piece = Buffer.alloc(PIECE_BYTES);
  for (;;) {
    const { bytesRead } = await handle.read(piece, 0, PIECE_BYTES);
    if (bytesRead === 0) return undefined;
    yield piece.toString('latin1', 0, bytesRead);
  }
}

function deleting({ batches }: RouteDeps): Handler {
  return async (c) => {
    const file = find(c, batches);
    const reader = batches.readerOf(file.id);
    if (reader !== undefined) {
      const message = `The file ${file.id} is the input of ${reader.id}, which has not ended: wait for its end, or cancel it.`;
      throw new ApiError({ status: 409, code: 'file_in_use', message, param: 'id' });
    }
    await batches.files.delete(file);
    return c.json({ id: file.id, object: 'file', deleted: true } satisfies z.infer<typeof deletedSchema>);
  };
}

function find(c: Context, { files }: RouteDeps['batches']): StoredFile {
  const id = c.req.param('id') ?? '';
  const file = files.find(callersOf(c), id);
  if (file !== undefined) return file;
  const message = `There is no file ${JSON.stringify(shown(id))} here: this client has sent none with this id, or it was deleted.`;
  throw new ApiError({ status: 404, code: 'file_not_found', message, param: 'id' });
}

function described({ id, bytes, createdMs, filename, purpose }: StoredFile): z.infer<typeof fileSchema> {
  return {
    ...{ id, object: 'file', bytes, created_at: Math.floor(createdMs / 1000), expires_at: null },
    ...{ filename, purpose, status: 'processed' },
  };
}
