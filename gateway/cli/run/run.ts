import { existsSync } from 'node:fs';

import { RefusedError, Server, servedModels } from '../../client/server.ts';
import { type RunConfig, runSettings, serverOptions } from '../../config/client-settings.ts';
import { ExitCode, UsageError } from '../../errors/exit-code.ts';
import { ModelFileError, UnavailableError } from '../../errors/thrown.ts';
import { isHubName } from '../../models/hub/hub-file.ts';
import { modelIdOf } from '../../models/model.ts';
import { catalogue, resolveModel } from '../../models/model-cache.ts';
import { ModelSlot } from '../../models/model-slot.ts';
import { runningServers } from '../../system/run-files.ts';
import { ABOUT_LINES, chatFlags, converse } from '../chat/chat.ts';
import { type Command, command } from '../command.ts';
import { pullByName } from '../pull.ts';
import { tellStderr } from '../report.ts';
import { runFolder } from '../servers/run-folder.ts';
import { OwnServer, refuseOwnFlags, tellProgress, withServerFlags } from './own-server.ts';

/** Seconds to wait for a server that is asked which models it serves. */
const SILENCE_SEC = 5;

interface Chat {
  readonly config: RunConfig;
  readonly isJson: boolean;
}

/** serverFlags: the flags of the server that is started. */
const runWith = (serverFlags: readonly string[]): Command =>
  command({
    forms: ['run MODEL [options] [-- OPTIONS OF SERVE]'],
    about: `Fetches the model if it was not fetched before, serves it on a free port of 127.0.0.1 and chats with it, as \`runnel chat\` does. MODEL is a name that \`runnel pull\` takes, or a path. If a server of this user already serves a model of that name, the chat is with that server. A server that run has started ends with run. Flags after -- are for \`runnel serve\`; with them, run always starts a server of its own.\n\n${ABOUT_LINES}`,
    settings: { ...chatFlags, ...runSettings },
    takesArguments: true,
    examples: [
      'runnel run smollm2',
      'runnel run ./model.gguf --system "Answer in one sentence." -- --threads 4',
      'echo "What is a lighthouse?" | runnel run smollm2 --temperature 0 --max-tokens 60',
    ],
    run: async ({ config, positionals }) => {
      const [model] = positionals;
      if (model === undefined || positionals.length !== 1)
        throw new UsageError(
          `run takes one MODEL: a name that pull takes, or a path (got ${JSON.stringify(positionals.join(' '))}).`,
        );
      refuseOwnFlags('run', serverFlags);
      const path = await fetched(model);
      const chat = { config, isJson: config.json };
      // A path may name another file than the served model of the same name, so only names are shared.
      const isShared = serverFlags.length === 0 && isName(model);
      const running = isShared ? await serverOf(modelIdOf(path), config) : undefined;
      if (running === undefined) await chatWithOwn(path, serverFlags, chat);
      else {
        tellStderr(`${model} is served at ${running}: the chat is with that server.`);
        await chatAt(running, modelIdOf(path), chat);
      }
      return ExitCode.ok;
    },
  });

/** `runnel run MODEL`: fetches a model, serves it, chats with it, and ends what it has started. */
export const run: Command = {
  usage: runWith([]).usage,
  run: (args) => {
    const [own, serverFlags] = withServerFlags(args);
    return runWith(serverFlags).run(own);
  },
};

/**
 * Returns the path of a model. A name that is not there yet is fetched. Throws the errors of fetching, and ModelFileError (66)
 * for text that is neither a name nor a path.
 */
async function fetched(model: string): Promise<string> {
  const path = isName(model) ? (pulled(model) ?? (await pullByName(model))) : model;
  if (existsSync(path)) return path;
  throw new ModelFileError(
    66,
    `There is no model ${JSON.stringify(model)}: run takes a path, or a name that \`runnel pull --help\` lists.`,
  );
}

/** Whether the text is a name of the catalogue or of a hub. */
function isName(model: string): boolean {
  return isHubName(model) || catalogue.some(({ name }) => name === model);
}

/** The path of a fetched model; undefined if it has not been fetched. */
function pulled(name: string): string | undefined {
  try {
    return resolveModel(name);
  } catch (error) {
    if (error instanceof ModelFileError) return undefined;
    throw error;
  }
}

/** The address of a server of this user that serves a model of this name and accepts the key; undefined if there is none. */
async function serverOf(modelId: string, config: RunConfig): Promise<string | undefined> {
  for (const { url } of runningServers(runFolder())) {
    const server = serverAt(url, { ...config, 'silence-timeout-sec': SILENCE_SEC });
    try {
      if ((await servedModels(server)).includes(modelId)) return url;
    } catch (error) {
      if (!(error instanceof UnavailableError) && !(error instanceof RefusedError)) throw error;
    } finally {
      server.close();
    }
  }
  return undefined;
}

function serverAt(url: string, config: RunConfig): Server {
  return new Server(serverOptions({ ...config, url }, process.env));
}

/** Starts a server for the chat and ends it afterwards. */
async function chatWithOwn(path: string, flags: readonly string[], chat: Chat): Promise<void> {
  // The model is read first, so that an unusable model has its own exit status.
  const slot = new ModelSlot(path);
  await slot.refresh();
  slot.close();
  const own = await OwnServer.start(['--model', path, ...flags]);
  try {
    const server = serverAt(own.url, chat.config);
    try {
      await own.ready(server, tellProgress);
    } finally {
      server.close();
    }
    await chatAt(own.url, modelIdOf(path), chat);
  } finally {
    await own.stop();
  }
}

async function chatAt(url: string, model: string, { config, isJson }: Chat): Promise<void> {
  const server = serverAt(url, config);
  try {
    await converse(server, { ...config, model }, isJson);
  } finally {
    server.close();
  }
}
