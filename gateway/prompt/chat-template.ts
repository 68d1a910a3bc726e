import type { Caller } from '../system/caller.ts';
import type { ThinkingFormat } from './thinking-format.ts';
import type { ToolCallFormat } from './tool-call-format.ts';

/** A chat message as templates see it. Roles are an enumeration so that clients cannot forge one. */
export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string;
  /** What the assistant thought before this message. */
  readonly reasoning?: string;
  /** The tools that the assistant called in this message. */
  readonly toolCalls?: readonly ToolCall[];
  /** The call that a tool's message answers. */
  readonly answers?: Pick<ToolCall, 'id' | 'name'>;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** The arguments by name: any JSON values. */
  readonly arguments: object;
}

/** A tool as clients describe it to a template: any JSON object. */
export type ToolDefinition = object;

/** How a conversation is rendered, where this differs from the default. */
export interface RenderOptions {
  /** The tools that the template gets. */
  readonly tools?: readonly ToolDefinition[] | undefined;
  /** Further variables of the template by name: any JSON values. */
  readonly variables?: Readonly<Record<string, unknown>>;
  /** Whether the prompt ends with the text that begins an answer. The default is true. */
  readonly addsGenerationPrompt?: boolean;
  /**
   * Whether the prompt ends with the text of the last message, which the answer continues. Nothing then begins another message.
   */
  readonly continuesLast?: boolean;
  /**
   * Whether the text of a system message stands in front of that of the user's message after it, where the template refuses or leaves
   * out system messages.
   */
  readonly foldsSystem?: boolean;
  /** Aborts when nobody waits for the prompt any more. */
  readonly signal?: AbortSignal | undefined;
  /** Whose turn the prompt takes; absent: ANONYMOUS. */
  readonly caller?: Caller | undefined;
}

/**
 * Names of variables that a client may not set: those that the gateway sets, and those that a template may take for parts of the conversation.
 */
export const reservedVariables: readonly string[] = [
  'messages',
  'bos_token',
  'eos_token',
  'add_generation_prompt',
  'continue_final_message',
  'tools',
  'documents',
];

/** A model's own chat template. */
export interface ChatTemplate {
  /** How the model writes calls of tools; undefined if its template has them written in an unknown way. */
  readonly toolUse: ToolCallFormat | undefined;
  /** How the model marks its thinking. Absent if it does not think, or marks it in an unknown way. */
  readonly thinking?: ThinkingFormat | undefined;
  /** Begins the start-up that the first render would otherwise wait for. */
  start(): void;
  /**
   * Returns the ids of the conversation's prompt. Literals of control tokens in a client's text stay text. Throws
   * ChatTemplateError with the template's own message if it refuses the conversation, or if it exceeds its bounds of processor
   * time, memory, depth or output; UnavailableError if it cannot be rendered now; PromptTooLongError, before any
   * text is tokenized, if the prompt certainly has more than maxTokens tokens.
   */
  render(messages: readonly ChatMessage[], maxTokens?: number, options?: RenderOptions): Promise<number[]>;
  /** Returns the same prompt as text, of any length. Throws the errors of render() except PromptTooLongError. */
  renderText(messages: readonly ChatMessage[], options?: RenderOptions): Promise<string>;
}

export class PromptTooLongError extends Error {
  override readonly name = 'PromptTooLongError';
  readonly leastTokens: number;

  constructor(leastTokens: number) {
    super(`The prompt has at least ${leastTokens} tokens.`);
    this.leastTokens = leastTokens;
  }
}

/**
 * The template cannot render this conversation, now or later: it refuses the conversation, exceeds its bounds, or cannot be
 * parsed at all. The message says which.
 */
export class ChatTemplateError extends Error {
  override readonly name = 'ChatTemplateError';
}

/** Finds the texts of a JSON value: strings and names at any depth. The depth of request bodies is bounded elsewhere. */
export function textsIn(value: unknown): string[] {
  const texts: string[] = [];
  visit(value, (leaf) => {
    if (typeof leaf === 'string') texts.push(leaf);
  });
  return texts;
}

/** About as many characters as the value has when it is written as JSON. */
export function charactersIn(value: unknown): number {
  let sum = 0;
  visit(value, (leaf) => (sum += typeof leaf === 'string' ? leaf.length : String(leaf).length));
  return sum;
}

/** Calls onLeaf for every scalar and for every name. */
function visit(value: unknown, onLeaf: (leaf: unknown) => void): void {
  if (Array.isArray(value)) {
    for (const item of value) visit(item, onLeaf);
    return;
  }
  if (typeof value !== 'object' || value === null) {
    onLeaf(value);
    return;
  }
  for (const [name, member] of Object.entries(value)) {
    onLeaf(name);
    visit(member, onLeaf);
  }
}
