import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { tokenLogprobs } from '../openai/logprobs.ts';
import type { ChoiceText } from '../whole-text.ts';
import type { ItemStatus, MessageItem, OutputItem, ResponseEventName, TextPart } from './answers.ts';
import type { EventWriter } from './event-writer.ts';

/** The item `message` of a response's output: a message with one text. */

type TokenBytes = Pick<Tokenizer, 'bytes'>;

/** A text or a piece of a text. It has its tokens if log-probabilities were requested. */
export type ItemText = Pick<ChoiceText, 'text' | 'tokens'>;

export function messageItem(id: string, status: ItemStatus, content: TextPart[]): MessageItem {
  return { id, type: 'message', status, role: 'assistant', content };
}

export function textPart(tokenizer: TokenBytes, { text, tokens }: ItemText): TextPart {
  return { type: 'output_text', text, annotations: [], logprobs: logprobsOf(tokenizer, tokens) };
}

function logprobsOf(tokenizer: TokenBytes, tokens: ItemText['tokens']): TextPart['logprobs'] {
  return tokens === undefined ? [] : tokenLogprobs(tokenizer, tokens);
}

/** Writes the events of a message, from response.output_item.added to response.output_item.done. */
export class MessageItemEvents {
  readonly #tokenizer: TokenBytes;
  readonly #id: string;
  readonly #index: number;
  readonly #writer: EventWriter;
  /** The members that say in each event of the text to which item and part it belongs. */
  readonly #place: string;

  /** Writes the first events. index: the place of the item in the output. */
  constructor(tokenizer: TokenBytes, id: string, index: number, writer: EventWriter) {
    this.#tokenizer = tokenizer;
    this.#id = id;
    this.#index = index;
    this.#writer = writer;
    this.#place = `"item_id":${JSON.stringify(id)},"output_index":${index},"content_index":0`;
    this.#item('response.output_item.added', messageItem(id, 'in_progress', []));
    this.#part('response.content_part.added', { text: '', tokens: undefined });
  }

  delta({ text, tokens }: ItemText): void {
    const logprobs = tokens === undefined ? '[]' : JSON.stringify(logprobsOf(this.#tokenizer, tokens));
    const members = `${this.#place},"delta":${JSON.stringify(text)},"logprobs":${logprobs}`;
    this.#writer.write('response.output_text.delta', members);
  }

  /** whole: the whole text of the message. */
  close(whole: ItemText, status: ItemStatus): void {
    const { text, tokens } = whole;
    const logprobs = JSON.stringify(logprobsOf(this.#tokenizer, tokens));
    const members = `${this.#place},"text":${JSON.stringify(text)},"logprobs":${logprobs}`;
    this.#writer.write('response.output_text.done', members);
    this.#part('response.content_part.done', whole);
    const part = textPart(this.#tokenizer, whole);
    this.#item('response.output_item.done', messageItem(this.#id, status, [part]));
  }

  #item(type: ResponseEventName, item: OutputItem): void {
    this.#writer.write(type, `"output_index":${this.#index},"item":${JSON.stringify(item)}`);
  }

  #part(type: ResponseEventName, text: ItemText): void {
    const part = JSON.stringify(textPart(this.#tokenizer, text));
    this.#writer.write(type, `${this.#place},"part":${part}`);
  }
}
