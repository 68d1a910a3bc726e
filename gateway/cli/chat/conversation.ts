import { FENCE } from './message-reader.ts';

interface Message {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

/** The messages of a conversation. It grows until it is cleared; the server reports when it is too long. */
export class Conversation {
  system: string | undefined;
  #turns: Message[] = [];

  constructor(system: string | undefined) {
    this.system = system;
  }

  get messages(): readonly Message[] {
    return this.system === undefined
      ? this.#turns
      : [{ role: 'system', content: this.system }, ...this.#turns];
  }

  ask(content: string): void {
    this.#turns.push({ role: 'user', content });
  }

  /** Adds the answer to the last question. An empty answer removes the question. */
  answer(content: string): void {
    if (content === '') this.#turns.pop();
    else this.#turns.push({ role: 'assistant', content });
  }

  /** Removes all messages but the system message. */
  clear(): void {
    this.#turns = [];
  }
}

/** The commands of the chat: lines that begin with a slash. */

export const COMMANDS_HELP = [
  '  /system TEXT   sets the system prompt; without TEXT, shows it; /system - removes it',
  '  /clear         forgets the messages so far, but not the system prompt',
  '  /help          shows these commands',
  '  /exit          ends the chat, as the end of the input does',
  `  ${FENCE}            encloses a message that has several lines or begins with a slash`,
].join('\n');

/** Handles a command and returns its reply. Undefined means that the chat ends. */
export function handle(line: string, conversation: Conversation): string | undefined {
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
