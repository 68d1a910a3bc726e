import { type ChoiceText, choiceText, GrowingText } from '../../calls/whole-answer.ts';
import type { AnswerPart } from '../../generation/text-stream.ts';
import { type CallPiece, inOrder } from '../../generation/tool-call-parser.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import type { ItemStatus, OutputItem } from './answers.ts';
import type { EventWriter } from './event-writer.ts';
import {
  type CallIds,
  CallItemEvents,
  callItem,
  type ItemText,
  MessageItemEvents,
  messageItem,
  ReasoningItemEvents,
  reasoningItem,
  textPart,
} from './items.ts';

/** The output of a response: what was thought, then each text of the answer as a message and each call as an item, in their order. */

type TokenBytes = Pick<Tokenizer, 'bytes'>;

/** The ids of items. index: the place of the item among the items of its type. */
export interface ItemIds {
  readonly reasoning: string;
  message(index: number): string;
  call(index: number): CallIds;
}

/** An answer, as far as it has arrived. */
export interface OutputText extends ChoiceText {
  /** The number of calls whose arguments are whole. */
  readonly numWholeCalls: number;
}

export class GrowingOutput extends GrowingText implements OutputText {
  numWholeCalls = 0;

  /** Adds a part of the answer, and returns what it adds. */
  add(part: AnswerPart): ChoiceText {
    const piece = choiceText(part);
    this.append(piece);
    this.numWholeCalls = part.numWholeCalls ?? 0;
    return piece;
  }
}

/** An output without calls always has a message, even without text. status: the status of the text or thought that came last. */
export function outputItems(
  ids: ItemIds,
  tokenizer: TokenBytes,
  output: OutputText,
  status: ItemStatus,
): OutputItem[] {
  const { thought, text, calls } = output;
  const said = saidItems(ids, tokenizer, output, status);
  if (thought === undefined) return said;
  const isUnfinished = text === '' && calls.length === 0;
  return [reasoningItem(ids.reasoning, isUnfinished ? status : 'completed', thought), ...said];
}

function saidItems(
  ids: ItemIds,
  tokenizer: TokenBytes,
  { text, tokens, calls, numWholeCalls }: OutputText,
  status: ItemStatus,
): OutputItem[] {
  const message = (index: number, said: ItemText, itemStatus: ItemStatus) =>
    messageItem(ids.message(index), itemStatus, [textPart(tokenizer, said)]);
  // Tools exclude log-probabilities, so texts between calls need no tokens.
  if (calls.length === 0) return [message(0, { text, tokens }, status)];
  const items = inOrder(text, calls);
  let numMessages = 0;
  return items.map((item, at) => {
    if (typeof item !== 'string')
      return callItem(ids.call(item.index), item.index < numWholeCalls ? 'completed' : 'incomplete', item);
    const isLast = at === items.length - 1;
    return message(numMessages++, { text: item, tokens: undefined }, isLast ? status : 'completed');
  });
}

/** Writes the same items as events while the answer arrives. */
export class OutputEvents {
  readonly #ids: ItemIds;
  readonly #tokenizer: TokenBytes;
  readonly #writer: EventWriter;
  #numItems = 0;
  #numMessages = 0;
  #reasoning: ReasoningItemEvents | undefined;
  #message: MessageItemEvents | undefined;
  /** The text of the open message so far. */
  #said = new GrowingText();
  #call: CallItemEvents | undefined;

  constructor(ids: ItemIds, tokenizer: TokenBytes, writer: EventWriter) {
    this.#ids = ids;
    this.#tokenizer = tokenizer;
    this.#writer = writer;
  }

  /** Closes the open item, and writes the first events of a message. */
  beginMessage(): void {
    this.#close('completed');
    const id = this.#ids.message(this.#numMessages++);
    this.#said = new GrowingText();
    this.#message = new MessageItemEvents(this.#tokenizer, id, this.#numItems++, this.#writer);
  }

  /** piece: what the last part adds to the answer. */
  add(piece: ChoiceText, numWholeCalls: number): void {
    const { thought, text, calls } = piece;
    if (thought !== undefined) this.#think(thought);
    if (calls.length === 0) {
      if (text !== '') this.#say(piece);
    } else {
      for (const item of inOrder(text, calls)) {
        if (typeof item === 'string') this.#say({ text: item, tokens: undefined });
        else this.#addCall(item);
      }
    }
    const isWhole = this.#call !== undefined && this.#call.callIndex < numWholeCalls;
    if (isWhole) this.#close('completed');
  }

  /** Closes the open item, and adds an empty message if there was none but thinking. status: of an open item that is no call. */
  end(status: ItemStatus): void {
    if (this.#reasoning !== undefined) this.#beginMessageBehind(status);
    else if (this.#numItems === 0) this.beginMessage();
    // A call that is still open was cut short.
    this.#close(this.#call === undefined ? status : 'incomplete');
  }

  #think(thought: string): void {
    this.#reasoning ??= new ReasoningItemEvents(this.#ids.reasoning, this.#numItems++, this.#writer);
    this.#reasoning.delta(thought);
  }

  /** Adds the empty message of an answer that ended while it was thinking. */
  #beginMessageBehind(status: ItemStatus): void {
    this.#close(status);
    this.beginMessage();
  }

  #say({ text, tokens }: ItemText): void {
    if (this.#message === undefined) this.beginMessage();
    this.#message?.delta({ text, tokens });
    this.#said.append({ text, tokens, calls: [] });
  }

  #addCall(piece: CallPiece): void {
    if (piece.name === undefined) {
      this.#call?.delta(piece.arguments);
      return;
    }
    this.#close('completed');
    this.#call = new CallItemEvents(this.#ids.call(piece.index), this.#numItems++, piece, this.#writer);
  }

  #close(status: ItemStatus): void {
    this.#reasoning?.close(status);
    this.#message?.close(this.#said, status);
    this.#call?.close(status);
    this.#reasoning = undefined;
    this.#message = undefined;
    this.#call = undefined;
  }
}
