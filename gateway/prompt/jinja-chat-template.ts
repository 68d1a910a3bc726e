/**
 * A model's own chat template. It turns a conversation into prompt ids, with control tokens only where the template wrote them.
 */
import { cooperativeScheduler, type Task } from '../system/cooperative-scheduler.ts';
import type { TextSegment } from '../tokenizer/added-tokens.ts';
import { LiteralFinder } from '../tokenizer/literals.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import {
  type ChatMessage,
  type ChatTemplate,
  ChatTemplateError,
  PromptTooLongError,
  type RenderOptions,
} from './chat-template.ts';
import { ControlTokenEscaper } from './control-token-escaper.ts';
import { shortId } from './short-id.ts';
import type { TemplateMarks } from './template-marks.ts';
import type { TemplateMessage } from './template-messages.ts';
import { TemplateProcess } from './template-process.ts';
import { charactersIn, textsIn } from './texts-in.ts';
import type { ThinkingFormat } from './thinking-format.ts';
import type { ToolUse } from './tool-call-format.ts';

export class JinjaChatTemplate implements ChatTemplate {
  readonly source: string;
  readonly toolUse: ToolUse;
  readonly thinking: ThinkingFormat | undefined;
  /** Turns the id of a tool call into one that the template accepts. */
  readonly #idOf: (id: string) => string;
  readonly #process: TemplateProcess;
  readonly #tokenizer: Tokenizer;
  readonly #control: LiteralFinder<true>;

  /** source: tokenizer.chat_template of the model file. Throws ChatTemplateError if it is too long. */
  static *of(source: string, marks: TemplateMarks, tokenizer: Tokenizer): Task<JinjaChatTemplate> {
    const literals = tokenizer.controlLiterals.map((literal) => [literal, true] as const);
    return new JinjaChatTemplate(source, marks, tokenizer, yield* LiteralFinder.of(literals));
  }

  private constructor(
    source: string,
    { toolUse, thinking }: TemplateMarks,
    tokenizer: Tokenizer,
    control: LiteralFinder<true>,
  ) {
    this.source = source;
    this.toolUse = toolUse;
    this.thinking = thinking;
    this.#idOf = typeof this.toolUse === 'object' && this.toolUse.hasShortIds ? shortId : (id) => id;
    this.#process = new TemplateProcess(source);
    this.#tokenizer = tokenizer;
    this.#control = control;
  }

  start(): void {
    this.#process.start();
  }

  async render(
    messages: readonly ChatMessage[],
    maxTokens = Number.POSITIVE_INFINITY,
    options: RenderOptions = {},
  ): Promise<number[]> {
    const { prompt, hidden } = await this.#rendered(messages, options);
    return cooperativeScheduler.run(prompt.length, this.#encode(prompt, hidden, maxTokens));
  }

  async renderText(messages: readonly ChatMessage[], options: RenderOptions = {}): Promise<string> {
    const { prompt, hidden } = await this.#rendered(messages, options);
    return cooperativeScheduler.run(prompt.length, hidden.reveal(prompt));
  }

  /** Renders the prompt, with placeholders for the literals of control tokens that a client wrote. */
  async #rendered(
    messages: readonly ChatMessage[],
    { tools = [], variables = {}, addsGenerationPrompt = true, continuesLast = false }: RenderOptions,
  ): Promise<{ prompt: string; hidden: ControlTokenEscaper }> {
    const given: Given = {
      variables,
      conversation: {
        messages: messages.map((message) => templateMessage(message, this.#idOf, this.thinking?.member)),
        ...(tools.length === 0 ? {} : { tools }),
      },
    };
    const hidden = new ControlTokenEscaper(this.#tokenizer.controlLiterals, textsIn(given));
    const safe = await cooperativeScheduler.run(charactersIn(given), hideIn(given, hidden));
    const said = safe.conversation.messages;
    const prompt = await this.#process.render({
      ...safe.variables,
      ...safe.conversation,
      messages: continuesLast ? markedAtEnd(said, hidden.mark) : said,
      bos_token: this.#literal(this.#tokenizer.bosId),
      eos_token: this.#literal(this.#tokenizer.eosId),
      add_generation_prompt: addsGenerationPrompt && !continuesLast,
    });
    return { prompt: continuesLast ? untilMark(prompt, hidden.mark) : prompt, hidden };
  }

  *#encode(prompt: string, hidden: ControlTokenEscaper, maxTokens: number): Task<number[]> {
    // The prompt is cut at the control tokens first and the placeholders are revealed afterwards. Revealed text joins the text
    // around it, so its ids are those of ordinary text.
    const segments: TextSegment[] = [];
    let leastTokens = 0;
    for (const { text, match: isControl = false } of this.#control.split(prompt)) {
      const revealed = isControl ? text : yield* hidden.reveal(text);
      segments.push({ text: revealed, parseSpecial: isControl });
      leastTokens += isControl ? 1 : this.#tokenizer.leastTokens(revealed);
      yield;
    }
    if (leastTokens > maxTokens) throw new PromptTooLongError(leastTokens);
    return yield* this.#tokenizer.encodeSegments(segments, false);
  }

  close(): void {
    this.#process.close();
  }

  #literal(id: number | undefined): string {
    return id === undefined ? '' : Buffer.from(this.#tokenizer.bytes(id)).toString('utf8');
  }
}

/** What a client gives to the template. */
interface Given {
  readonly variables: Readonly<Record<string, unknown>>;
  readonly conversation: {
    readonly messages: readonly TemplateMessage[];
    readonly tools?: readonly object[];
  };
}

/** The message with the names that templates use. Absent fields are left out, because templates ask whether they are defined. */
function templateMessage(
  { role, content, reasoning, toolCalls = [], answers }: ChatMessage,
  idOf: (id: string) => string,
  reasoningMember: ThinkingFormat['member'],
): TemplateMessage {
  const calls = toolCalls.map(({ id, ...function_ }) => {
    return { id: idOf(id), type: 'function', function: function_ };
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
function* hideIn<Value>(value: Value, hidden: ControlTokenEscaper): Task<Value> {
  return (yield* hideInAny(value, hidden)) as Value;
}

function* hideInAny(value: unknown, hidden: ControlTokenEscaper): Task<unknown> {
  if (typeof value === 'string') return yield* hidden.hide(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const items: unknown[] = [];
    for (const item of value) items.push(yield* hideInAny(item, hidden));
    return items;
  }
  const members: [string, unknown][] = [];
  for (const [name, member] of Object.entries(value))
    members.push([yield* hidden.hide(name), yield* hideInAny(member, hidden)]);
  return Object.fromEntries(members);
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
