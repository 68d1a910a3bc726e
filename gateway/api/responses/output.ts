import type { EventOutlet } from '../../calls/call.ts';
import { GrowingText } from '../../calls/whole-answer.ts';
import type { ApiError } from '../../errors/api-error.ts';
import type { AnswerText } from '../../generation/text-stream.ts';
import { type CallPiece, inOrder } from '../../generation/tool-call-parser.ts';
import { namedEvent } from '../../server/streams/response-stream.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { openAiErrorBody } from '../error-bodies.ts';
import { tokenLogprobs } from '../token-logprobs.ts';
import type { ItemIds, ItemStatus, OutputItem, OutputPart, ResponseEventName } from './response.ts';

/** The output of a response: what was thought, then each text of the answer as a message and each call as an item, in their order. */

type TokenBytes = Pick<Tokenizer, 'bytes'>;

/** A text or a piece of a text. It has its tokens if log-probabilities were requested. */
type ItemText = Pick<AnswerText, 'text' | 'sentTokens'>;

/** How an item of one type is written. `said` is its text so far. */
interface ItemForm {
  readonly id: string;
  /** The name of the text in the names of events. */
  readonly textName: 'reasoning_text' | 'output_text' | 'function_call_arguments';
  /** An item in progress has no content yet. */
  item(status: ItemStatus, said: ItemText): OutputItem;
  /** Absent if the text is not a part of a content. */
  part?(said: ItemText): OutputPart;
  /** Members of the event with the whole text. */
  whole(said: ItemText): object;
  /** Members of the event with a piece of it, besides that piece. */
  besidePiece?(piece: ItemText): string;
}

/** What was thought before the item that follows, without a summary. */
function reasoningForm(id: string): ItemForm {
  const part = ({ text }: ItemText) => ({ type: 'reasoning_text' as const, text });
  return {
    id,
    textName: 'reasoning_text',
    item: (status, said) => {
      const content = status === 'in_progress' ? {} : { content: [part(said)] };
      return { id, type: 'reasoning', status, summary: [], ...content };
    },
    part,
    whole: ({ text }) => ({ text }),
  };
}

function messageForm(id: string, tokenizer: TokenBytes): ItemForm {
  const logprobsOf = ({ sentTokens = [] }: ItemText) => tokenLogprobs(tokenizer, sentTokens);
  const part = (said: ItemText) => {
    return { type: 'output_text' as const, text: said.text, annotations: [], logprobs: logprobsOf(said) };
  };
  return {
    id,
    textName: 'output_text',
    item: (status, said) => {
      const content = status === 'in_progress' ? [] : [part(said)];
      return { id, type: 'message', status, role: 'assistant', content };
    },
    part,
    whole: (said) => ({ text: said.text, logprobs: logprobsOf(said) }),
    besidePiece: (piece) => `,"logprobs":${JSON.stringify(logprobsOf(piece))}`,
  };
}

function callForm({ id, callId }: ReturnType<ItemIds['call']>, name: string): ItemForm {
  return {
    id,
    textName: 'function_call_arguments',
    item: (status, { text }) => {
      return { id, type: 'function_call', status, call_id: callId, name, arguments: text };
    },
    whole: ({ text }) => ({ name, arguments: text }),
  };
}

/** An item that is not complete. Its events go from response.output_item.added to response.output_item.done. */
class OpenItem {
  /** The index of the call in the answer; undefined if the item is no call. */
  readonly callIndex: number | undefined;
  readonly #form: ItemForm;
  readonly #writer: EventWriter | undefined;
  readonly #index: number;
  /** The members that say in each event of the text to which item and part it belongs. */
  readonly #place: string;
  readonly #said = new GrowingText();

  /** Writes the first events. index: the place of the item in the output. */
  constructor(form: ItemForm, index: number, writer: EventWriter | undefined, callIndex?: number) {
    this.callIndex = callIndex;
    this.#form = form;
    this.#writer = writer;
    this.#index = index;
    const inPart = form.part === undefined ? '' : ',"content_index":0';
    this.#place = `"item_id":${JSON.stringify(form.id)},"output_index":${index}${inPart}`;
    this.#tellItem('added', 'in_progress');
    this.#tellPart('added');
  }

  get isReasoning(): boolean {
    return this.#form.textName === 'reasoning_text';
  }

  at(status: ItemStatus): OutputItem {
    return this.#form.item(status, this.#said);
  }

  add(piece: ItemText): void {
    this.#said.append(piece);
    const { textName, besidePiece } = this.#form;
    const members = `"delta":${JSON.stringify(piece.text)}${besidePiece?.(piece) ?? ''}`;
    this.#writer?.write(`response.${textName}.delta`, `${this.#place},${members}`);
  }

  close(status: ItemStatus): OutputItem {
    const { textName } = this.#form;
    const members = JSON.stringify(this.#form.whole(this.#said)).slice(1, -1);
    this.#writer?.write(`response.${textName}.done`, `${this.#place},${members}`);
    this.#tellPart('done');
    this.#tellItem('done', status);
    return this.at(status);
  }

  #tellItem(stage: 'added' | 'done', status: ItemStatus): void {
    const item = JSON.stringify(this.at(status));
    this.#writer?.write(`response.output_item.${stage}`, `"output_index":${this.#index},"item":${item}`);
  }

  #tellPart(stage: 'added' | 'done'): void {
    const part = JSON.stringify(this.#form.part?.(this.#said));
    if (part !== undefined)
      this.#writer?.write(`response.content_part.${stage}`, `${this.#place},"part":${part}`);
  }
}

/** Makes the items as the answer arrives, and writes their events if it has a writer. */
export class Output {
  readonly #ids: ItemIds;
  readonly #tokenizer: TokenBytes;
  readonly #writer: EventWriter | undefined;
  /** The items that are complete. */
  readonly #items: OutputItem[] = [];
  #open: OpenItem | undefined;
  #numMessages = 0;
  #numThoughts = 0;

  constructor(ids: ItemIds, tokenizer: TokenBytes, writer?: EventWriter) {
    this.#ids = ids;
    this.#tokenizer = tokenizer;
    this.#writer = writer;
  }

  /**
   * The items by now. An output without calls always has a message, even without text. status: of the text or thought that came
   * last.
   */
  items(status: ItemStatus): OutputItem[] {
    const items = [...this.#items];
    if (this.#open !== undefined) items.push(this.#open.at(this.#endStatus(status)));
    if (items.some(({ type }) => type !== 'reasoning')) return items;
    const message = messageForm(this.#ids.message(0), this.#tokenizer);
    return [...items, message.item(status, { text: '' })];
  }

  /** Closes the open item, and writes the first events of a message. */
  beginMessage(): void {
    this.#begin(messageForm(this.#ids.message(this.#numMessages++), this.#tokenizer));
  }

  /** piece: what the answer has besides all that was added before. numWholeCalls: the calls whose arguments are whole. */
  add({ thought, text, sentTokens, calls = [] }: AnswerText, numWholeCalls: number): void {
    if (thought !== undefined) {
      if (!this.#open?.isReasoning) this.#begin(reasoningForm(this.#ids.reasoning(this.#numThoughts++)));
      this.#open?.add({ text: thought });
    }
    // Tools exclude log-probabilities, so texts between calls need no tokens.
    for (const item of inOrder(text, calls)) {
      if (typeof item === 'string') this.#say({ text: item, sentTokens });
      else this.#addCall(item);
    }
    const callIndex = this.#open?.callIndex;
    if (callIndex !== undefined && callIndex < numWholeCalls) this.#close('completed');
  }

  /** Closes the open item, and adds an empty message if there was none but thinking. status: of an open item that is no call. */
  end(status: ItemStatus): void {
    const isThought = this.#open?.isReasoning ?? true;
    const isUnsaid = isThought && this.#items.every(({ type }) => type === 'reasoning');
    if (isUnsaid) {
      this.#close(status);
      this.beginMessage();
    }
    this.#close(this.#endStatus(status));
  }

  /** A call that is still open at the end was cut short. */
  #endStatus(status: ItemStatus): ItemStatus {
    return this.#open?.callIndex === undefined ? status : 'incomplete';
  }

  #say(piece: ItemText): void {
    if (this.#open === undefined || this.#open.isReasoning || this.#open.callIndex !== undefined)
      this.beginMessage();
    this.#open?.add(piece);
  }

  #addCall({ index, name, arguments: text }: CallPiece): void {
    if (name !== undefined) this.#begin(callForm(this.#ids.call(index), name), index);
    if (text !== '') this.#open?.add({ text });
  }

  #begin(form: ItemForm, callIndex?: number): void {
    this.#close('completed');
    this.#open = new OpenItem(form, this.#items.length, this.#writer, callIndex);
  }

  #close(status: ItemStatus): void {
    if (this.#open === undefined) return;
    this.#items.push(this.#open.close(status));
    this.#open = undefined;
  }
}

/** Writes the events of one response, numbered from 0. */
export class EventWriter {
  readonly #outlet: EventOutlet;
  #sequenceNumber = 0;

  constructor(outlet: EventOutlet) {
    this.#outlet = outlet;
  }

  /** members: the other members of the event as JSON, without the braces around them. */
  write(type: ResponseEventName, members: string): void {
    this.#outlet.write(numberedEvent(type, members, this.#sequenceNumber++));
  }

  end(): void {
    this.#outlet.end();
  }
}

function numberedEvent(type: ResponseEventName, members: string, sequenceNumber: number): string {
  return namedEvent(type, `{"type":"${type}",${members},"sequence_number":${sequenceNumber}}`);
}

/** The only event of a stream that failed before it had a response. SDKs recognise it by its member `error`. */
export function errorEvent(apiError: ApiError): string {
  const { error } = openAiErrorBody(apiError);
  const { code, message, param } = error;
  const members = JSON.stringify({ code, message, param, error }).slice(1, -1);
  return numberedEvent('error', members, 0);
}
