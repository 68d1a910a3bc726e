import { createReadStream, statSync } from 'node:fs';
import { setTimeout as elapsed } from 'node:timers/promises';
import * as z from 'zod';
import { batchEndpoints, type windows } from '../../batches/batch.ts';
import { readLines } from '../../batches/lines.ts';
import { RawBody, Server } from '../../client/server.ts';
import { model, text } from '../../config/kinds.ts';
import { MODEL_MISSING } from '../../config/runner-settings.ts';
import { inGroup } from '../../config/setting.ts';
import { ExitCode, UsageError } from '../../errors/exit-code.ts';
import { UnavailableError } from '../../errors/thrown.ts';
import { memberOf } from '../../json/json-values.ts';
import { type Command, command } from '../command.ts';
import { tellStderr } from '../report.ts';
import { OwnServer, refuseOwnFlags, tellProgress, withServerFlags } from '../run/own-server.ts';
import { type BatchPaths, WorkFolder } from './work-folder.ts';

const POLL_MS = 250;
/** For the folder of a run whose server has not ended yet. */
const MAX_TRIES = 20;
const RETRY_MS = 1000;
const SILENCE_MS = 600_000;
/** Flags that `batch` sets besides those of all commands with a server, and keys, which its server needs none of. */
const REFUSED = ['--journal-dir', '--api-keys-file', '--admin-keys-file'];
const BOUNDARY = 'runnel-batch-0c7d1e5b9a3f';
const MAX_LINE_BYTES = 2 ** 28;
/** The time in which nothing runs counts, too: the command may be killed on a Friday and begun again on a Monday. */
const WINDOW: keyof typeof windows = '365d';

const settings = inGroup('Input and output', {
  model: model(MODEL_MISSING).help('GGUF file, Hugging Face folder, or name of a pulled model'),
  output: text('OUT').optional('FILE.output.jsonl').help('File for the answers'),
  errors: text('ERR').optional('FILE.errors.jsonl').help('File for the lines that were refused'),
});

/** serverFlags: the flags of the server that is started. */
const batchWith = (serverFlags: readonly string[]): Command =>
  command({
    forms: ['batch FILE --model MODEL [options] [-- OPTIONS OF SERVE]'],
    about:
      "Answers the lines of FILE, requests in the form of OpenAI's batches, by a server of its own on a free port of 127.0.0.1. A line names its model as `runnel serve` serves it.\nIf it is ended or killed, the same command goes on with the lines that have no answer yet. Until then they are in a folder with the name of the output and .batch after it. Flags after -- are for `runnel serve`.",
    settings,
    takesArguments: true,
    examples: [
      'runnel batch requests.jsonl --model smollm2',
      'runnel batch requests.jsonl --model ./model.gguf --output answers.jsonl -- --threads 4',
    ],
    run: async ({ config, positionals }) => {
      const [file] = positionals;
      if (file === undefined || positionals.length !== 1)
        throw new UsageError(
          `batch takes one FILE with a request on each line (got ${JSON.stringify(positionals.join(' '))}).`,
        );
      refuseOwnFlags('batch', serverFlags, REFUSED);
      const base = file.replace(/\.jsonl$/, '');
      const { model, output = `${base}.output.jsonl`, errors = `${base}.errors.jsonl` } = config;
      return answerFile({ file, output, errors }, ['--model', model, ...serverFlags]);
    },
  });

/** `runnel batch FILE`: answers a file of requests without a server of the user's. */
export const batch: Command = {
  usage: batchWith([]).usage,
  run: (args) => {
    const [own, serverFlags] = withServerFlags(args);
    return batchWith(serverFlags).run(own);
  },
};

async function answerFile(paths: BatchPaths, flags: readonly string[]): Promise<number> {
  const folder = await WorkFolder.open(paths);
  const own = await startServer([...flags, '--journal-dir', folder.journal]);
  try {
    const server = new Server({ url: own.url, key: undefined, silenceMs: SILENCE_MS });
    try {
      await own.ready(server, tellProgress);
      return await answerBy(server, paths, folder);
    } finally {
      server.close();
    }
  } finally {
    await own.stop();
  }
}

/** The server of a run that was killed ends a moment after it. */
async function startServer(flags: readonly string[]): Promise<OwnServer> {
  for (let numTries = 1; ; numTries += 1) {
    try {
      return await OwnServer.start(flags);
    } catch (error) {
      const isTaken =
        error instanceof UnavailableError && error.message.includes('is used by another gateway');
      if (!isTaken || numTries === MAX_TRIES) throw error;
      await elapsed(RETRY_MS);
    }
  }
}

const batchSchema = z.object({
  id: z.string(),
  status: z.string(),
  output_file_id: z.string().nullable(),
  error_file_id: z.string().nullable(),
  request_counts: z.object({ total: z.number(), completed: z.number(), failed: z.number() }),
  errors: z.object({ data: z.array(z.object({ message: z.string() })) }).nullable(),
});
type Batch = z.output<typeof batchSchema>;

const UNDER_WAY = ['validating', 'in_progress', 'finalizing', 'cancelling'];

async function answerBy(server: Server, paths: BatchPaths, folder: WorkFolder): Promise<number> {
  const { data } = z.object({ data: z.array(batchSchema) }).parse(await server.get('/v1/batches'));
  let batch = data[0] ?? (await begin(server, paths.file));
  for (; UNDER_WAY.includes(batch.status); await elapsed(POLL_MS)) {
    batch = batchSchema.parse(await server.get(`/v1/batches/${batch.id}`));
    tellCounts(batch);
  }
  if (batch.errors !== null) {
    folder.remove();
    throw new UsageError(batch.errors.data.map(({ message }) => message).join('\n'));
  }
  await save(server, folder, batch.output_file_id, paths.output);
  await save(server, folder, batch.error_file_id, paths.errors);
  folder.remove();
  const { total, completed, failed } = batch.request_counts;
  const refused = failed === 0 ? '.' : `, ${failed} have none: ${paths.errors} says why.`;
  tellStderr(`${completed} of ${total} lines are answered in ${paths.output}${refused}`);
  if (batch.status !== 'completed')
    throw new UnavailableError(`The batch is ${batch.status}: not all lines were answered within its time.`);
  return ExitCode.ok;
}

async function begin(server: Server, file: string): Promise<Batch> {
  const endpoint = await firstUrl(file);
  const { id } = z.object({ id: z.string() }).parse(await server.ask('POST', '/v1/files', formOf(file)));
  const asked = { input_file_id: id, endpoint, completion_window: WINDOW };
  return batchSchema.parse(await server.ask('POST', '/v1/batches', asked));
}

/** The route of the first line, which all lines must have. Lines without one are refused by the server. */
async function firstUrl(file: string): Promise<string> {
  for await (const { bytes } of readLines(file, MAX_LINE_BYTES)) {
    try {
      const url = memberOf(JSON.parse(bytes.toString()), 'url');
      if (batchEndpoints.some((endpoint) => endpoint === url)) return url as string;
    } catch {
      // The server names the line.
    }
    break;
  }
  return batchEndpoints[0];
}

function formOf(file: string): RawBody {
  const before = Buffer.from(
    [
      ...[`--${BOUNDARY}`, 'Content-Disposition: form-data; name="purpose"', '', 'batch'],
      ...[`--${BOUNDARY}`, 'Content-Disposition: form-data; name="file"; filename="input.jsonl"', '', ''],
    ].join('\r\n'),
  );
  const behind = Buffer.from(`\r\n--${BOUNDARY}--\r\n`);
  async function* pieces(): AsyncGenerator<Uint8Array> {
    yield before;
    yield* createReadStream(file);
    yield behind;
  }
  const numBytes = before.length + statSync(file).size + behind.length;
  return new RawBody(`multipart/form-data; boundary=${BOUNDARY}`, numBytes, pieces());
}

async function save(server: Server, folder: WorkFolder, id: string | null, path: string): Promise<void> {
  if (id !== null) await folder.write(path, await server.send('GET', `/v1/files/${id}/content`));
}

function tellCounts({ request_counts: { total, completed, failed } }: Batch): void {
  if (process.stderr.isTTY && total > 0)
    process.stderr.write(
      `\rLines: ${completed + failed} of ${total}${completed + failed === total ? '\n' : ''}`,
    );
}
