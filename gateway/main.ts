import type { Command } from './cli/command.ts';
import { reporting } from './cli/report.ts';
import { requireTextArguments } from './cli/text-input.ts';
import { ExitCode } from './errors/exit-code.ts';
import { version } from './system/version.ts';

/** The command line. Each command takes its own arguments and returns the exit status. */

/** Each command loads only what it needs itself. */
const commands: Record<string, { readonly help: string; readonly load: () => Promise<Command> }> = {
  serve: {
    help: 'serve a model over HTTP',
    load: async () => (await import('./cli/serve.ts')).serve,
  },
  run: {
    help: 'fetch a model, serve it and chat with it',
    load: async () => (await import('./cli/run/run.ts')).run,
  },
  chat: {
    help: 'chat with the model of a server',
    load: async () => (await import('./cli/chat/chat.ts')).chat,
  },
  generate: {
    help: 'answer prompts without a server',
    load: async () => (await import('./cli/generate.ts')).generate,
  },
  pull: {
    help: 'fetch a model by name',
    load: async () => (await import('./cli/pull.ts')).pull,
  },
  list: {
    help: 'list the models that were fetched',
    load: async () => (await import('./cli/list.ts')).list,
  },
  ps: {
    help: 'list the servers that run here, with model, state and memory',
    load: async () => (await import('./cli/servers/ps.ts')).ps,
  },
  stop: {
    help: 'end a server, and wait until it has ended',
    load: async () => (await import('./cli/servers/stop.ts')).stop,
  },
  inspect: {
    help: 'say what a model file is, and whether it runs here',
    load: async () => (await import('./cli/inspect.ts')).inspect,
  },
  tokenize: {
    help: "print the ids of a text in a model's vocabulary",
    load: async () => (await import('./cli/tokenize.ts')).tokenize,
  },
  detokenize: {
    help: 'print the text of token ids',
    load: async () => (await import('./cli/detokenize.ts')).detokenize,
  },
  bench: {
    help: 'measure a server: time to first token, time between tokens, goodput',
    load: async () => (await import('./cli/bench/bench.ts')).bench,
  },
  doctor: {
    help: 'say what this machine can serve with, and what it lacks',
    load: async () => (await import('./cli/doctor.ts')).doctor,
  },
  frames: {
    help: "print a recording of a runner's messages",
    load: async () => (await import('./cli/frames.ts')).frames,
  },
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
  const command = await entry.load();
  if (rest.includes('--help')) {
    console.log(command.usage());
    return ExitCode.ok;
  }
  return reporting(() => {
    requireTextArguments(rest);
    return command.run(rest);
  });
}

function usage(): string {
  const rows = Object.entries(commands).map(([name, { help }]) => `  runnel ${name.padEnd(10)} ${help}`);
  return `Usage:\n${rows.join('\n')}\nEvery command takes --help. runnel --version prints the version.`;
}
