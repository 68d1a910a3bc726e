/** A model's own template: a conversation in, prompt ids out, with control tokens only where the template put them. */
import { LiteralFinder } from '../tokenizer/literals.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { type ChatMessage, type ChatTemplate, PromptTooLongError } from './chat-template.ts';
import { HiddenLiterals } from './hidden-literals.ts';
import { TemplateProcess } from './template-process.ts';

export class JinjaChatTemplate implements ChatTemplate {
  readonly #process: TemplateProcess;
  readonly #tokenizer: Tokenizer;
  readonly #control: LiteralFinder<true>;

  /** source: tokenizer.chat_template of the model file. ChatTemplateError when it is too long. */
  constructor(source: string, tokenizer: Tokenizer) {
    this.#process = new TemplateProcess(source);
    this.#tokenizer = tokenizer;
    this.#control = new LiteralFinder(tokenizer.controlLiterals.map((literal) => [literal, true] as const));
  }

  async render(messages: readonly ChatMessage[], maxTokens = Number.POSITIVE_INFINITY): Promise<number[]> {
    const contents = messages.map((message) => message.content);
    const hidden = new HiddenLiterals(this.#tokenizer.controlLiterals, contents);
    const prompt = await this.#process.render({
      messages: messages.map(({ role, content }) => ({ role, content: hidden.hide(content) })),
      bos_token: this.#literal(this.#tokenizer.bosId),
      eos_token: this.#literal(this.#tokenizer.eosId),
      add_generation_prompt: true,
    });

    // Cut at the control tokens first and reveal afterwards: what is revealed joins the text around it, so that its ids
    // are those of ordinary text in its place.
    const segments = [...this.#control.split(prompt)].map(({ text, match }) =>
      match === true ? { text, isControl: true } : { text: hidden.reveal(text), isControl: false },
    );
    const leastTokens = segments.reduce(
      (sum, { text, isControl }) => sum + (isControl ? 1 : this.#tokenizer.leastTokens(text)),
      0,
    );
    if (leastTokens > maxTokens) throw new PromptTooLongError(leastTokens);
    const ids: number[] = [];
    for (const { text, isControl } of segments) {
      for (const id of this.#tokenizer.encode(text, { addSpecial: false, parseSpecial: isControl }))
        ids.push(id);
    }
    return ids;
  }

  close(): void {
    this.#process.close();
  }

  #literal(id: number | undefined): string {
    return id === undefined ? '' : Buffer.from(this.#tokenizer.bytes(id)).toString('utf8');
  }
}
