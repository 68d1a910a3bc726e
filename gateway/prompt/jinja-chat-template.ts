/** A model's own template: a conversation in, prompt ids out, with control tokens only where the template put them. */
import { cooperativeScheduler, type Task } from '../system/cooperative-scheduler.ts';
import type { TextSegment } from '../tokenizer/added-tokens.ts';
import { LiteralFinder } from '../tokenizer/literals.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { type ChatMessage, type ChatTemplate, PromptTooLongError } from './chat-template.ts';
import { ControlTokenEscaper } from './control-token-escaper.ts';
import { TemplateProcess } from './template-process.ts';

export class JinjaChatTemplate implements ChatTemplate {
  readonly source: string;
  readonly #process: TemplateProcess;
  readonly #tokenizer: Tokenizer;
  readonly #control: LiteralFinder<true>;

  /** source: tokenizer.chat_template of the model file. ChatTemplateError when it is too long. */
  static *of(source: string, tokenizer: Tokenizer): Task<JinjaChatTemplate> {
    const literals = tokenizer.controlLiterals.map((literal) => [literal, true] as const);
    return new JinjaChatTemplate(source, tokenizer, yield* LiteralFinder.of(literals));
  }

  private constructor(source: string, tokenizer: Tokenizer, control: LiteralFinder<true>) {
    this.source = source;
    this.#process = new TemplateProcess(source);
    this.#tokenizer = tokenizer;
    this.#control = control;
  }

  start(): void {
    this.#process.start();
  }

  async render(messages: readonly ChatMessage[], maxTokens = Number.POSITIVE_INFINITY): Promise<number[]> {
    const contents = messages.map((message) => message.content);
    const length = contents.reduce((sum, content) => sum + content.length, 0);
    const hidden = new ControlTokenEscaper(this.#tokenizer.controlLiterals, contents);
    const prompt = await this.#process.render({
      messages: await cooperativeScheduler.run(length, hideIn(messages, hidden)),
      bos_token: this.#literal(this.#tokenizer.bosId),
      eos_token: this.#literal(this.#tokenizer.eosId),
      add_generation_prompt: true,
    });
    return cooperativeScheduler.run(prompt.length, this.#encode(prompt, hidden, maxTokens));
  }

  *#encode(prompt: string, hidden: ControlTokenEscaper, maxTokens: number): Task<number[]> {
    // Cut at the control tokens first and reveal afterwards: what is revealed joins the text around it, so that its ids
    // are those of ordinary text in its place.
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

function* hideIn(messages: readonly ChatMessage[], hidden: ControlTokenEscaper): Task<ChatMessage[]> {
  const out: ChatMessage[] = [];
  for (const { role, content } of messages) out.push({ role, content: yield* hidden.hide(content) });
  return out;
}
