import { setTimeout as elapsed } from 'node:timers/promises';
import { seconds, text } from '../../config/kinds.ts';
import { inGroup, onlyFlags } from '../../config/setting.ts';
import { ExitCode, UsageError } from '../../errors/exit-code.ts';
import { UnavailableError } from '../../errors/thrown.ts';
import { identityOf } from '../../system/kernel.ts';
import { type RunningServer, runningServers } from '../../system/run-files.ts';
import { command, jsonFlag } from '../command.ts';
import { runFolder } from './run-folder.ts';

const POLL_MS = 50;

/** `runnel stop`: ends a server of this user and waits until it is gone. */
export const stop = command({
  forms: ['stop [--url URL | --pid PID] [--timeout-sec SECONDS]'],
  about:
    'Ends a server of this user on this machine by SIGTERM, so that it finishes open requests first, and waits until it has ended. --url or --pid is needed if several servers run; `runnel ps` lists them.',
  settings: onlyFlags({
    ...inGroup('Server', {
      url: text('URL').optional().help('URL of the server, as `runnel ps` shows it'),
      pid: text('PID').optional().help('Process id of the server'),
    }),
    'timeout-sec': seconds(0, 999_999).or(60).help('Time to wait').with({ group: 'Timeouts' }),
    json: jsonFlag('Print {"pid", "url"} of the server'),
  }),
  examples: ['runnel stop', 'runnel stop --url http://127.0.0.1:8080'],
  run: async ({ config }) => {
    const server = chosen(runningServers(runFolder()), config.url, config.pid);
    await end(server, config['timeout-sec'] * 1000);
    process.stdout.write(
      config.json ? `${JSON.stringify(server)}\n` : `${server.pid} at ${server.url} has ended.\n`,
    );
    return ExitCode.ok;
  },
});

function chosen(
  servers: readonly RunningServer[],
  url: string | undefined,
  pid: string | undefined,
): RunningServer {
  if (url !== undefined && pid !== undefined) throw new UsageError('stop takes --url or --pid, not both.');
  const meant = servers.filter(
    (server) =>
      (url === undefined || server.url === url) && (pid === undefined || String(server.pid) === pid),
  );
  const [server] = meant;
  const name = url ?? (pid === undefined ? undefined : `process ${pid}`);
  if (server === undefined)
    throw new UnavailableError(
      name === undefined
        ? 'No server of this user runs.'
        : `No server of this user is ${name}; \`runnel ps\` lists them.`,
    );
  if (meant.length === 1) return server;
  const list = meant.map((each) => `${each.pid} at ${each.url}`).join(', ');
  throw new UsageError(`Several servers run: ${list}. Choose one with --pid.`);
}

async function end({ pid, url }: RunningServer, timeoutMs: number): Promise<void> {
  const identity = identityOf(pid);
  try {
    process.kill(pid, 'SIGTERM');
  } catch (error) {
    // The process had already ended.
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return;
    throw error;
  }
  const deadline = performance.now() + timeoutMs;
  while (identity !== undefined && identityOf(pid) === identity) {
    if (performance.now() > deadline)
      throw new UnavailableError(
        `The server ${pid} at ${url} still finishes open requests ${timeoutMs / 1000} s after SIGTERM.`,
      );
    await elapsed(POLL_MS);
  }
}
