/** Loads a Model from a path. */
import type { ChatMessage, ChatTemplate, RenderOptions } from '../prompt/chat-template.ts';
import type { TemplateFacts, TemplateMarks } from '../prompt/template-features.ts';
import { BpeTokenizer } from '../tokenizer/bpe-tokenizer.ts';
import { type Model, modelIdOf } from './model.ts';
import type { ReaderLimits } from './reader/limits.ts';
import { ModelReader } from './reader/model-reader.ts';

/** Throws ModelFileError. */
export async function loadModel(path: string, limits: Partial<ReaderLimits> = {}): Promise<Model> {
  const reader = new ModelReader(limits);
  try {
    const { description, marks } = await reader.read(path);
    const { tables, template, ...facts } = description;
    const tokenizer = await BpeTokenizer.of(tables, reader);
    const chatTemplate = marks && new ReaderTemplate(reader, marks);
    return { path, id: modelIdOf(path), ...facts, tokenizer, chatTemplate };
  } catch (error) {
    reader.close();
    throw error;
  }
}

/** The chat template of a model, rendered by the model's reader. */
export class ReaderTemplate implements ChatTemplate {
  readonly toolUse: ChatTemplate['toolUse'];
  readonly thinking: ChatTemplate['thinking'];
  readonly #reader: ModelReader;

  constructor(reader: ModelReader, { toolUse, thinking }: TemplateMarks) {
    this.#reader = reader;
    this.toolUse = toolUse;
    this.thinking = thinking;
  }

  start(): void {
    this.#reader.start();
  }

  render(
    messages: readonly ChatMessage[],
    maxTokens = Number.POSITIVE_INFINITY,
    options: RenderOptions = {},
  ): Promise<number[]> {
    return this.#reader.render(messages, maxTokens, options);
  }

  renderText(messages: readonly ChatMessage[], options: RenderOptions = {}): Promise<string> {
    return this.#reader.renderText(messages, options);
  }

  features(): Promise<TemplateFacts> {
    return this.#reader.features();
  }

  close(): void {
    this.#reader.close();
  }
}
