import type { ThinkingFormat } from './thinking-format.ts';
import type { ToolUse } from './tool-call-format.ts';

/** A chat message as templates see it. Roles are an enumeration so that none can be forged. */
export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string;
  /** What the assistant thought before it said so. */
  readonly reasoning?: string;
  /** What the assistant called with it. */
  readonly toolCalls?: readonly ToolCall[];
  /** The call that a tool answers. */
  readonly answers?: Pick<ToolCall, 'id' | 'name'>;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** Anything that JSON can be, by name. */
  readonly arguments: object;
}

/** A tool as clients describe it to a template: anything that JSON can be. */
export type ToolDefinition = object;

/** How a conversation is rendered, where it is not as usual. */
export interface RenderOptions {
  /** Those that the template is told of. */
  readonly tools?: readonly ToolDefinition[] | undefined;
  /** Values that the template is given by name beside its own: anything that JSON can be. */
  readonly variables?: Readonly<Record<string, unknown>>;
  /** Whether the prompt ends with what begins an answer; true when left out. */
  readonly addsGenerationPrompt?: boolean;
  /** The prompt ends with the text of the last message, which the answer goes on with; then nothing begins another one. */
  readonly continuesLast?: boolean;
}

/** The model's own template, compiled once. */
export interface ChatTemplate {
  /** How it has tools called. */
  readonly toolUse: ToolUse;
  /** How its model marks what it thinks; absent: it does not think, or in a way that is not known here. */
  readonly thinking?: ThinkingFormat | undefined;
  /** Begins what the first render would otherwise wait for. */
  start(): void;
  /**
   * Ids of the conversation, ready for an answer by the assistant. Literals of control tokens inside what a client wrote
   * stay text. Throws ChatTemplateError with the template's own message when it refuses, and when it exceeds its
   * bounds of processor time, memory, depth or output; ChatTemplateUnavailableError when it cannot be asked now;
   * PromptTooLongError, before any text is tokenized, for what must be more than maxTokens.
   */
  render(messages: readonly ChatMessage[], maxTokens?: number, options?: RenderOptions): Promise<number[]>;
  /** The same conversation as text, however long it is. Throws as render does. */
  renderText(messages: readonly ChatMessage[], options?: RenderOptions): Promise<string>;
  /** Frees what rendering holds, as soon as no render is under way. */
  close(): void;
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
 * The template does not render this conversation, and will not another time: it refuses it, takes too much for it, or
 * cannot be parsed at all. The message says which.
 */
export class ChatTemplateError extends Error {
  override readonly name = 'ChatTemplateError';
}

/** Nothing is known about the conversation, only that it could not be rendered now: sending it again may help. */
export class ChatTemplateUnavailableError extends Error {
  override readonly name = 'ChatTemplateUnavailableError';
  readonly retryAfterSec: number;

  constructor(message: string, retryAfterSec: number) {
    super(message);
    this.retryAfterSec = retryAfterSec;
  }
}
