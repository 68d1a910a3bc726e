import type { Conversation } from './conversation.ts';
import { FENCE } from './message-reader.ts';

/** The commands of the chat: lines that begin with a slash. */

export const COMMANDS_HELP = [
  '  /system TEXT   sets the system prompt; without TEXT, shows it; /system - removes it',
  '  /clear         forgets the messages so far, but not the system prompt',
  '  /help          shows these commands',
  '  /exit          ends the chat, as the end of the input does',
  `  ${FENCE}            encloses a message that has several lines or begins with a slash`,
].join('\n');

/** Executes a command and returns its reply. Undefined means that the chat ends. */
export function obey(line: string, conversation: Conversation): string | undefined {
  const [name] = /^\S*/.exec(line.trim()) ?? [''];
  const rest = line.trim().slice(name.length).trimStart();
  switch (name) {
    case '/help':
      return COMMANDS_HELP;
    case '/clear':
      conversation.clear();
      return 'The messages so far are forgotten.';
    case '/system':
      return setSystem(rest, conversation);
    case '/exit':
      return undefined;
    default:
      return `There is no command ${name}; /help lists the commands.`;
  }
}

function setSystem(text: string, conversation: Conversation): string {
  if (text !== '') conversation.system = text === '-' ? undefined : text;
  return conversation.system === undefined
    ? 'There is no system prompt.'
    : `System prompt: ${conversation.system}`;
}
