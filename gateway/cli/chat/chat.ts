import { firstModel, Server } from '../../client/server.ts';
import { type ChatConfig, chatSettings, serverOptions } from '../../config/client-settings.ts';
import { ExitCode } from '../../errors/exit-code.ts';
import { command, jsonFlag } from '../command.ts';
import { COMMANDS_HELP } from './conversation.ts';
import { ChatSession } from './session.ts';

/** What is the same for all commands that chat. */
export const chatFlags = {
  json: jsonFlag('Print a line of JSON for each answer: {"text", "finish", "usage"}'),
};
export const ABOUT_LINES = `Lines that begin with a slash are commands:\n${COMMANDS_HELP}`;

/** `runnel chat`: a conversation with a server's model, on a terminal or line by line. */
export const chat = command({
  forms: ['chat [--url URL] [options]'],
  about: `Chats with the model of a server, which may be any server with /v1/chat/completions. Ctrl-C stops an answer; a second one ends the chat. Without a terminal each line of stdin is a message, and each answer ends with a line feed.\n\n${ABOUT_LINES}`,
  settings: { ...chatFlags, ...chatSettings },
  examples: [
    'runnel chat',
    'runnel chat --url http://10.0.0.7:8080 --api-key-file ~/key --system "Answer in one sentence."',
    'echo "What is a lighthouse?" | runnel chat --temperature 0 --max-tokens 60',
  ],
  run: async ({ config }) => {
    const server = new Server(serverOptions(config, process.env));
    try {
      await converse(server, { ...config, model: config.model ?? (await firstModel(server)) }, config.json);
    } finally {
      server.close();
    }
    return ExitCode.ok;
  },
});

/** The settings that a conversation uses. */
type Conversing = Pick<ChatConfig, 'system' | 'temperature' | 'top-p' | 'max-tokens' | 'seed'> & {
  readonly model: string;
};

/** Holds a conversation on this process's stdin and stdout until it ends. */
export async function converse(server: Server, config: Conversing, isJson: boolean): Promise<void> {
  const isTerminal = !isJson && process.stdin.isTTY === true && process.stdout.isTTY === true;
  if (isTerminal)
    process.stdout.write(
      `${config.model} at ${server.url}. /help lists the commands, /exit ends the chat.\n`,
    );
  const session = new ChatSession({
    input: process.stdin,
    output: process.stdout,
    isTerminal,
    isJson,
    hasColours: !process.env.NO_COLOR,
    server,
    system: config.system,
    fields: fieldsOf(config),
  });
  await session.run();
}

function fieldsOf(config: Conversing): object {
  const { model, temperature, seed } = config;
  // JSON leaves out undefined members.
  return { model, temperature, top_p: config['top-p'], max_tokens: config['max-tokens'], seed };
}
