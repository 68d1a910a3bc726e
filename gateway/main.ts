import { benchCommand, benchUsage } from './cli/bench/bench.ts';
import { chatCommand, chatUsage } from './cli/chat/chat.ts';
import { detokenizeCommand, detokenizeUsage } from './cli/detokenize.ts';
import { doctorCommand, doctorUsage } from './cli/doctor.ts';
import { framesCommand, framesUsage } from './cli/frames.ts';
import { generateCommand, generateUsage } from './cli/generate.ts';
import { inspectCommand, inspectUsage } from './cli/inspect.ts';
import { listCommand, listUsage } from './cli/list.ts';
import { pullCommand, pullUsage } from './cli/pull.ts';
import { reporting } from './cli/report.ts';
import { runCommand, runUsage } from './cli/run/run.ts';
import { serveCommand, serveUsage } from './cli/serve.ts';
import { psCommand, psUsage } from './cli/servers/ps.ts';
import { stopCommand, stopUsage } from './cli/servers/stop.ts';
import { requireTextArguments } from './cli/text-input.ts';
import { tokenizeCommand, tokenizeUsage } from './cli/tokenize.ts';
import { ExitCode } from './errors/exit-code.ts';
import { version } from './system/version.ts';

/** The command line. Each command takes its own arguments and gives the exit status. */

interface Command {
  readonly run: (args: string[]) => Promise<number>;
  readonly usage: () => string;
  readonly help: string;
}

const commands: Record<string, Command> = {
  serve: { run: serveCommand, usage: serveUsage, help: 'serve a model over HTTP' },
  run: { run: runCommand, usage: runUsage, help: 'fetch a model, serve it and chat with it' },
  chat: { run: chatCommand, usage: chatUsage, help: 'a conversation with the model of a server' },
  generate: { run: generateCommand, usage: generateUsage, help: 'answer prompts without a server' },
  pull: { run: pullCommand, usage: pullUsage, help: 'fetch a model by name' },
  list: { run: listCommand, usage: listUsage, help: 'the models that have been fetched' },
  ps: { run: psCommand, usage: psUsage, help: 'the servers that run here, with model, state and memory' },
  stop: { run: stopCommand, usage: stopUsage, help: 'end a server, and wait until it is gone' },
  inspect: {
    run: inspectCommand,
    usage: inspectUsage,
    help: 'what a model file is, and whether it runs here',
  },
  tokenize: {
    run: tokenizeCommand,
    usage: tokenizeUsage,
    help: "print the ids of a text in a model's vocabulary",
  },
  detokenize: {
    run: detokenizeCommand,
    usage: detokenizeUsage,
    help: 'print the text of token ids',
  },
  bench: {
    run: benchCommand,
    usage: benchUsage,
    help: 'measure a server: first token, between tokens, goodput',
  },
  doctor: {
    run: doctorCommand,
    usage: doctorUsage,
    help: 'what this machine can serve with, and what it lacks',
  },
  frames: { run: framesCommand, usage: framesUsage, help: "print a recording of a runner's session" },
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
  const command = name === undefined || !Object.hasOwn(commands, name) ? undefined : commands[name];
  if (command === undefined) {
    const fault = name === undefined ? 'a command is missing' : `there is no command ${JSON.stringify(name)}`;
    console.error(`runnel: ${fault}.\n${usage()}`);
    return ExitCode.usage;
  }
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
  return `Usage:\n${rows.join('\n')}\nEvery command takes --help. runnel --version says which one this is.`;
}
