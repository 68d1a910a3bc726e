/**
 * Turns a conversation into a prompt by a model's own chat template, with control tokens only where the template wrote them. It
 * runs in the model's reader.
 */

import { randomBytes } from 'node:crypto';
import { LiteralFinder, type TextSegment } from '../tokenizer/added-tokens.ts';
import type { Steps, Tokenizer } from '../tokenizer/tokenizer.ts';
import {
  BoundedTemplate,
  outputCharsMax,
  type TemplateCall,
  type TemplateMessage,
} from './bounded-template.ts';
import {
  type ChatMessage,
  ChatTemplateError,
  charactersIn,
  PromptTooLongError,
  type RenderOptions,
  textsIn,
} from './chat-template.ts';
import { type ToolConversation, withToolsInText } from './generic-tools.ts';
import { describedTools, harmonyHistory } from './harmony-conversation.ts';
import type { TemplateMarks } from './template-features.ts';
import type { ThinkingFormat } from './thinking-format.ts';
import { shortId, type ToolCallFormat } from './tool-call-format.ts';

/** What a prompt needs of a tokenizer. */
export interface PromptTokenizer
  extends Pick<Tokenizer, 'controlLiterals' | 'bosId' | 'eosId' | 'bytes' | 'leastTokens'> {
  /** Returns the ids of a text in parts, some of which may write control tokens. */
  encodeSegments(segments: readonly TextSegment[], addSpecial: boolean): Steps<number[]>;
}

export class ChatRenderer {
  readonly #source: string;
  readonly #toolUse: ToolCallFormat | undefined;
  readonly #thinking: ThinkingFormat | undefined;
  readonly #tokenizer: PromptTokenizer;
  readonly #control: LiteralFinder<number>;
  #template: BoundedTemplate | undefined;
  /** Undefined until a conversation asks. */
  #hasSystem: boolean | undefined;

  /** Throws TokenizerError. */
  static async of(source: string, marks: TemplateMarks, tokenizer: PromptTokenizer): Promise<ChatRenderer> {
    const literals = tokenizer.controlLiterals.map((literal, index) => [literal, index] as const);
    return new ChatRenderer(source, marks, tokenizer, await LiteralFinder.of(literals));
  }

  private constructor(
    source: string,
    { toolUse, thinking }: TemplateMarks,
    tokenizer: PromptTokenizer,
    control: LiteralFinder<number>,
  ) {
    this.#source = source;
    this.#toolUse = toolUse;
    this.#thinking = thinking;
    this.#tokenizer = tokenizer;
    this.#control = control;
  }

  get isParsed(): boolean {
    return this.#template !== undefined;
  }

  /** Parses the template unless it has been parsed. Throws ChatTemplateError. */
  parse(): BoundedTemplate {
    this.#template ??= new BoundedTemplate(this.#source);
    return this.#template;
  }

  /** Throws ChatTemplateError. */
  render(
    messages: readonly ChatMessage[],
    {
      tools = [],
      variables = {},
      addsGenerationPrompt = true,
      continuesLast = false,
      foldsSystem = false,
    }: RenderOptions = {},
  ): RenderedPrompt {
    const idOf = this.#toolUse?.hasShortIds ? shortId : (id: string) => id;
    const isHarmony = this.#thinking?.channels !== undefined;
    const told = isHarmony ? harmonyHistory(messages) : messages;
    const given: Given = {
      variables,
      conversation: {
        messages: told.map((message) => templateMessage(message, idOf, this.#thinking?.member)),
        ...(tools.length === 0 ? {} : { tools: isHarmony ? describedTools(tools) : tools }),
      },
    };
    const hidden = new ControlTokenEscaper(this.#tokenizer.controlLiterals, this.#control, textsIn(given));
    const safe = hideIn(given, hidden);
    const takesSystem = (): boolean => (this.#hasSystem ??= this.#takesSystem());
    const conversation = this.#toolUse?.isGeneric
      ? { messages: withToolsInText(safe.conversation, takesSystem) }
      : safe.conversation;
    const said =
      foldsSystem && !takesSystem() ? withSystemInUser(conversation.messages) : conversation.messages;
    const prompt = this.#rendered(
      {
        ...safe.variables,
        ...conversation,
        messages: continuesLast ? markedAtEnd(said, hidden.mark) : said,
      },
      addsGenerationPrompt && !continuesLast,
      outputCharsMax(charactersIn(conversation)),
    );
    const text = continuesLast ? untilMark(prompt, hidden.mark) : prompt;
    return new RenderedPrompt(text, hidden, this.#tokenizer, this.#control);
  }

  /** Throws ChatTemplateError. */
  #rendered(conversation: ToolConversation & Given['variables'], begins: boolean, charsMax: number): string {
    const { bosId, eosId } = this.#tokenizer;
    const variables = {
      ...conversation,
      bos_token: this.#literal(bosId),
      eos_token: this.#literal(eosId),
      add_generation_prompt: begins,
    };
    return this.parse().render(variables, charsMax);
  }

  /** Whether the template writes a system message, rather than refusing it or leaving it out. */
  #takesSystem(): boolean {
    const content = `${open}system${close}`;
    const messages = [
      { role: 'system', content },
      { role: 'user', content: 'user' },
    ];
    try {
      return this.#rendered({ messages }, true, outputCharsMax(0)).includes(content);
    } catch (error) {
      if (error instanceof ChatTemplateError) return false;
      throw error;
    }
  }

  #literal(id: number | undefined): string {
    return id === undefined ? '' : Buffer.from(this.#tokenizer.bytes(id)).toString('utf8');
  }
}

/** A prompt with placeholders for the literals of control tokens that a client wrote. */
class RenderedPrompt {
  readonly #prompt: string;
  readonly #hidden: ControlTokenEscaper;
  readonly #tokenizer: PromptTokenizer;
  readonly #control: LiteralFinder<number>;

  constructor(
    prompt: string,
    hidden: ControlTokenEscaper,
    tokenizer: PromptTokenizer,
    control: LiteralFinder<number>,
  ) {
    this.#prompt = prompt;
    this.#hidden = hidden;
    this.#tokenizer = tokenizer;
    this.#control = control;
  }

  /** About the length of the text: placeholders are longer or shorter than what they stand for. */
  get length(): number {
    return this.#prompt.length;
  }

  get text(): string {
    return this.#hidden.reveal(this.#prompt);
  }

  /** Throws PromptTooLongError, before any text is tokenized, if the prompt certainly has more than maxTokens tokens. */
  *encode(maxTokens: number): Steps<number[]> {
    // The prompt is cut at the control tokens first and the placeholders are revealed afterwards. Revealed text joins the text
    // around it, so its ids are those of ordinary text.
    const segments: TextSegment[] = [];
    let leastTokens = 0;
    for (const { text, match } of this.#control.split(this.#prompt)) {
      const isControl = match !== undefined;
      const revealed = isControl ? text : this.#hidden.reveal(text);
      segments.push({ text: revealed, parseSpecial: isControl });
      leastTokens += isControl ? 1 : this.#tokenizer.leastTokens(revealed);
    }
    if (leastTokens > maxTokens) throw new PromptTooLongError(leastTokens);
    return yield* this.#tokenizer.encodeSegments(segments, false);
  }
}

/** What a client gives to the template. */
interface Given {
  readonly variables: Readonly<Record<string, unknown>>;
  readonly conversation: ToolConversation;
}

/** The message with the names that templates use. Absent fields are left out, because templates ask whether they are defined. */
function templateMessage(
  { role, content, reasoning, toolCalls = [], answers }: ChatMessage,
  idOf: (id: string) => string,
  reasoningMember: ThinkingFormat['member'],
): TemplateMessage {
  const calls = toolCalls.map(({ id, ...function_ }) => {
    return { id: idOf(id), type: 'function', function: function_ } satisfies TemplateCall;
  });
  return {
    role,
    content,
    ...(reasoning === undefined || reasoningMember === undefined ? {} : { [reasoningMember]: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(answers === undefined ? {} : { tool_call_id: idOf(answers.id), name: answers.name }),
  };
}

/** The same value with the literals hidden in all of its texts and names. */
function hideIn<Value>(value: Value, hidden: ControlTokenEscaper): Value {
  return hideInAny(value, hidden) as Value;
}

function hideInAny(value: unknown, hidden: ControlTokenEscaper): unknown {
  if (typeof value === 'string') return hidden.hide(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => hideInAny(item, hidden));
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [hidden.hide(name), hideInAny(member, hidden)]),
  );
}

/** Puts the text of a system message at the beginning in front of that of the user's message after it. */
function withSystemInUser(messages: readonly TemplateMessage[]): readonly TemplateMessage[] {
  const [system, user, ...others] = messages;
  if (system?.role !== 'system' || user?.role !== 'user') return messages;
  return [{ ...user, content: `${system.content}\n\n${user.content}` }, ...others];
}

/** Puts a mark behind the last message. The space after the mark shows later whether the template has trimmed the message. */
function markedAtEnd(messages: readonly TemplateMessage[], mark: string): TemplateMessage[] {
  return messages.map((message, index) => {
    return index < messages.length - 1 ? message : { ...message, content: `${message.content}${mark} ` };
  });
}

/**
 * The prompt in front of the mark, trimmed if the template has trimmed the message. Throws ChatTemplateError if the mark is
 * missing.
 */
function untilMark(prompt: string, mark: string): string {
  const end = prompt.lastIndexOf(mark);
  if (end < 0) {
    throw new ChatTemplateError(
      'The prompt made by the chat template does not contain the text of the last message, so this message cannot be continued.',
    );
  }
  const text = prompt.slice(0, end);
  return prompt.startsWith(' ', end + mark.length) ? text : text.trimEnd();
}

const open = '\uE000';
const close = '\uE001';
const nonceBytes = 16;

/**
 * Keeps user text from forging control tokens. Before a template renders, each literal of a control token in a message is
 * replaced by a placeholder with a secret. So the control tokens in the rendered prompt were written by the template.
 * Afterwards the placeholders become the literals again, as plain text.
 *
 * A placeholder consists of digits between two private-use characters, which trimming, changes of case and JSON leave as they
 * are.
 */
export class ControlTokenEscaper {
  readonly #literals: readonly string[];
  readonly #finder: LiteralFinder<number>;
  readonly #nonce: string;
  readonly #placeholders: RegExp;
  /** A string that is not a placeholder and occurs in none of the texts. It marks a place that can be found again. */
  readonly mark: string;

  /**
   * finder: finds the literals and gives their indices. texts: all texts in which literals will be hidden. The nonce is chosen
   * so that none of them contains it.
   */
  constructor(literals: readonly string[], finder: LiteralFinder<number>, texts: readonly string[]) {
    let nonce: string;
    do nonce = BigInt(`0x${randomBytes(nonceBytes).toString('hex')}`).toString();
    while (texts.some((text) => text.includes(nonce)));
    this.mark = open + nonce + close;
    this.#literals = literals;
    this.#finder = finder;
    this.#nonce = nonce;
    this.#placeholders = new RegExp(`${open}${nonce}\\.(\\d+)${close}`, 'g');
  }

  hide(text: string): string {
    let hidden = '';
    for (const { text: part, match } of this.#finder.split(text))
      hidden += match === undefined ? part : `${open}${this.#nonce}.${match}${close}`;
    return hidden;
  }

  reveal(text: string): string {
    return text.replace(this.#placeholders, (_, index: string) => this.#literals[Number(index)] ?? '');
  }
}
