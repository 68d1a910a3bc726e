import type { ChoiceText } from '../../calls/whole-answer.ts';
import type { CallPiece } from '../../generation/tool-call-parser.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { tokenLogprobs } from '../openai/logprobs.ts';
import type {
  CallItem,
  ItemStatus,
  MessageItem,
  OutputItem,
  ReasoningItem,
  ReasoningPart,
  ResponseEventName,
  TextPart,
} from './answers.ts';
import type { EventWriter } from './event-writer.ts';

/** The items of a response's output, whole and as events. */

/** The item of all that was thought before the answer, without a summary. */
export function reasoningItem(id: string, status: ItemStatus, text: string): ReasoningItem {
  return { id, type: 'reasoning', status, summary: [], content: [reasoningPart(text)] };
}

function reasoningPart(text: string): ReasoningPart {
  return { type: 'reasoning_text', text };
}

/** Writes the events of a reasoning item, from response.output_item.added to response.output_item.done. */
export class ReasoningItemEvents {
  readonly #id: string;
  readonly #index: number;
  readonly #writer: EventWriter;
  /** The members that say in each event of the text to which item and part it belongs. */
  readonly #place: string;
  #text = '';

  /** Writes the first events. index: the place of the item in the output. */
  constructor(id: string, index: number, writer: EventWriter) {
    this.#id = id;
    this.#index = index;
    this.#writer = writer;
    this.#place = `"item_id":${JSON.stringify(id)},"output_index":${index},"content_index":0`;
    this.#item('response.output_item.added', { id, type: 'reasoning', status: 'in_progress', summary: [] });
    this.#part('response.content_part.added');
  }

  delta(text: string): void {
    this.#text += text;
    this.#writer.write('response.reasoning_text.delta', `${this.#place},"delta":${JSON.stringify(text)}`);
  }

  close(status: ItemStatus): void {
    const members = `${this.#place},"text":${JSON.stringify(this.#text)}`;
    this.#writer.write('response.reasoning_text.done', members);
    this.#part('response.content_part.done');
    this.#item('response.output_item.done', reasoningItem(this.#id, status, this.#text));
  }

  #item(type: ResponseEventName, item: OutputItem): void {
    this.#writer.write(type, `"output_index":${this.#index},"item":${JSON.stringify(item)}`);
  }

  #part(type: ResponseEventName): void {
    this.#writer.write(type, `${this.#place},"part":${JSON.stringify(reasoningPart(this.#text))}`);
  }
}

type TokenBytes = Pick<Tokenizer, 'bytes'>;

/** A text or a piece of a text. It has its tokens if log-probabilities were requested. */
export type ItemText = Pick<ChoiceText, 'text' | 'tokens'>;

/** The item of a message with one text. */
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

/** The ids of a call of a tool. */
export interface CallIds {
  /** The id of the item. */
  readonly id: string;
  /** The id that the result of the call must name. */
  readonly callId: string;
}

export function callItem(
  { id, callId }: CallIds,
  status: ItemStatus,
  { name = '', arguments: given }: CallPiece,
): CallItem {
  return { id, type: 'function_call', status, call_id: callId, name, arguments: given };
}

/** Writes the events of a call, from response.output_item.added to response.output_item.done. */
export class CallItemEvents {
  readonly #ids: CallIds;
  readonly #index: number;
  readonly #writer: EventWriter;
  /** The members that say in each event of the arguments to which item they belong. */
  readonly #place: string;
  #call: CallPiece;

  /** Writes the first events. index: the place of the item in the output. first: the first piece of the call. */
  constructor(ids: CallIds, index: number, first: CallPiece, writer: EventWriter) {
    this.#ids = ids;
    this.#index = index;
    this.#writer = writer;
    this.#place = `"item_id":${JSON.stringify(ids.id)},"output_index":${index}`;
    this.#call = { ...first, arguments: '' };
    this.#item('response.output_item.added', 'in_progress');
    this.delta(first.arguments);
  }

  get callIndex(): number {
    return this.#call.index;
  }

  delta(text: string): void {
    if (text === '') return;
    this.#call = { ...this.#call, arguments: this.#call.arguments + text };
    this.#writer.write(
      'response.function_call_arguments.delta',
      `${this.#place},"delta":${JSON.stringify(text)}`,
    );
  }

  close(status: ItemStatus): void {
    const { name, arguments: given } = this.#call;
    const members = `${this.#place},"name":${JSON.stringify(name)},"arguments":${JSON.stringify(given)}`;
    this.#writer.write('response.function_call_arguments.done', members);
    this.#item('response.output_item.done', status);
  }

  #item(type: ResponseEventName, status: ItemStatus): void {
    const item = JSON.stringify(callItem(this.#ids, status, this.#call));
    this.#writer.write(type, `"output_index":${this.#index},"item":${item}`);
  }
}
