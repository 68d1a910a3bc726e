import type { Command } from './cli/command.ts';
import { reporting } from './cli/report.ts';
import { requireTextArguments } from './cli/text-input.ts';
import { ExitCode } from './errors/exit-code.ts';
import { version } from './system/version.ts';

/** The command line. Each command takes its own arguments and returns the exit status. */

/** What each command does, and how it is loaded: with only what it needs itself. */
const commands: Record<string, readonly [help: string, load: () => Promise<Command>]> = {
  serve: ['serve a model over HTTP', async () => (await import('./cli/serve.ts')).serve],
  run: ['fetch a model, serve it and chat with it', async () => (await import('./cli/run/run.ts')).run],
  chat: ['chat with the model of a server', async () => (await import('./cli/chat/chat.ts')).chat],
  batch: [
    "answer a file of requests in the form of OpenAI's batches",
    async () => (await import('./cli/batch/batch.ts')).batch,
  ],
  generate: ['answer prompts without a server', async () => (await import('./cli/generate.ts')).generate],
  verify: [
    'compute an answer again, and compare it with its receipt',
    async () => (await import('./cli/verify/verify.ts')).verify,
  ],
  pull: ['fetch a model by name', async () => (await import('./cli/pull.ts')).pull],
  list: ['list the models that were fetched', async () => (await import('./cli/list.ts')).list],
  ps: [
    'list the servers that run here, with model, state and memory',
    async () => (await import('./cli/servers/ps.ts')).ps,
  ],
  stop: [
    'end a server, and wait until it has ended',
    async () => (await import('./cli/servers/stop.ts')).stop,
  ],
  inspect: [
    'say what a model file is, and whether it runs here',
    async () => (await import('./cli/inspect.ts')).inspect,
  ],
  tokenize: [
    "print the ids of a text in a model's vocabulary",
    async () => (await import('./cli/tokenize.ts')).tokenize,
  ],
  detokenize: ['print the text of token ids', async () => (await import('./cli/tokenize.ts')).detokenize],
  bench: [
    'measure a server: time to first token, time between tokens, goodput',
    async () => (await import('./cli/bench/bench.ts')).bench,
  ],
  doctor: [
    'say what this machine can serve with, and what it lacks',
    async () => (await import('./cli/doctor.ts')).doctor,
  ],
  frames: ["print a recording of a runner's messages", async () => (await import('./cli/frames.ts')).frames],
};

export async function main(args: readonly string[]): Promise<number> {
  const [name, ...rest] = args;
  if (name === '--help' || name === '-h') {
    console.log(usage());
    return ExitCode.ok;
  }
  if (name === '--version') {
    console.log(version());
    return ExitCode.ok;
  }
  const entry = name === undefined || !Object.hasOwn(commands, name) ? undefined : commands[name];
  if (entry === undefined) {
    const fault = name === undefined ? 'a command is missing' : `there is no command ${JSON.stringify(name)}`;
    console.error(`runnel: ${fault}.\n${usage()}`);
    return ExitCode.usage;
  }
  const [, load] = entry;
  if (name === 'serve' && !rest.includes('--help')) await startReader();
  const command = await load();
  if (rest.includes('--help')) {
    console.log(command.usage());
    return ExitCode.ok;
  }
  return reporting(() => {
    requireTextArguments(rest);
    return command.run(rest);
  });
}

/** The reader of the first model starts while the server's code is loaded. */
async function startReader(): Promise<void> {
  const { startSpareReader } = await import('./models/reader/reader-process.ts');
  try {
    startSpareReader();
  } catch {
    // The machine lacks something. If it still does, the reader reports it.
  }
}

function usage(): string {
  const rows = Object.entries(commands).map(([name, [help]]) => `  runnel ${name.padEnd(10)} ${help}`);
  return `Usage:\n${rows.join('\n')}\nEvery command takes --help. runnel --version prints the version.`;
}
