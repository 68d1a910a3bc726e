import * as z from 'zod';
import { RefusedError, Server } from '../../client/server.ts';
import { ExitCode } from '../../errors/exit-code.ts';
import { UnavailableError } from '../../errors/thrown.ts';
import { columns, escapeControls, megabytes } from '../../system/printable.ts';
import { runningServers } from '../../system/run-files.ts';
import { command, jsonFlag } from '../command.ts';
import { runFolder } from './run-folder.ts';

/** Milliseconds to wait for a server that does not answer. */
const SILENCE_MS = 5000;

/** `runnel ps`: lists the servers of this user with what they report about themselves. */
export const ps = command({
  forms: ['ps [--json]'],
  about:
    'Lists the servers of this user on this machine: process id, URL, state, model, open requests, parked jobs and memory.',
  settings: {
    json: jsonFlag(
      'Print a JSON array of {"pid", "url", "state", "model", "open_requests", "parked_jobs", "memory_bytes"}',
    ),
  },
  examples: ['runnel ps', 'runnel ps --json | grep -o \'"url":"[^"]*"\''],
  run: async ({ config }) => {
    const rows = await Promise.all(runningServers(runFolder()).map(({ pid, url }) => rowOf(pid, url)));
    process.stdout.write(config.json ? `${JSON.stringify(rows)}\n` : tableOf(rows));
    return ExitCode.ok;
  },
});

const healthSchema = z.object({
  state: z.string(),
  model: z.string().nullable(),
  memory_bytes_used: z.number(),
  runner: z.object({ open_requests: z.number() }),
  /** Absent in the answers of earlier versions. */
  parked_jobs: z.number().nullable().default(null),
});

interface Row {
  readonly pid: number;
  readonly url: string;
  /** The state in /health, or "silent". */
  readonly state: string;
  readonly model: string | null;
  readonly open_requests: number | null;
  readonly parked_jobs: number | null;
  readonly memory_bytes: number | null;
}

async function rowOf(pid: number, url: string): Promise<Row> {
  const server = new Server({ url, key: undefined, silenceMs: SILENCE_MS });
  try {
    const health = healthSchema.parse(await server.get('/health'));
    const { state, model, runner, parked_jobs, memory_bytes_used: memory_bytes } = health;
    return { pid, url, state, model, open_requests: runner.open_requests, parked_jobs, memory_bytes };
  } catch (error) {
    const isExpected = error instanceof UnavailableError || error instanceof RefusedError;
    if (!isExpected && !(error instanceof z.ZodError)) throw error;
    return {
      pid,
      url,
      state: 'silent',
      model: null,
      open_requests: null,
      parked_jobs: null,
      memory_bytes: null,
    };
  } finally {
    server.close();
  }
}

function tableOf(rows: readonly Row[]): string {
  const cells = rows.map(({ pid, url, state, model, open_requests, parked_jobs, memory_bytes }) => [
    String(pid),
    escapeControls(url),
    escapeControls(state),
    escapeControls(model ?? '-'),
    String(open_requests ?? '-'),
    String(parked_jobs ?? '-'),
    memory_bytes === null ? '-' : megabytes(memory_bytes),
  ]);
  const table = [['PID', 'URL', 'STATE', 'MODEL', 'OPEN', 'PARKED', 'MEMORY'], ...cells];
  return columns(table, 'padEnd')
    .map((line) => `${line.trimEnd()}\n`)
    .join('');
}
