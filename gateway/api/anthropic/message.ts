import {
  callDigits,
  type Encoding,
  type EventEncoder,
  type EventOutlet,
  type Facts,
} from '../../calls/call.ts';
import { textOf } from '../../calls/whole-answer.ts';
import type { ApiError } from '../../errors/api-error.ts';
import type { AnswerEnd, AnswerPart } from '../../generation/text-stream.ts';
import { type CallPiece, inOrder } from '../../generation/tool-call-parser.ts';
import { jsonText, RawJson } from '../../json/json-text.ts';
import { namedEvent } from '../../server/streams/sse.ts';
import { marks } from '../answer-fields.ts';
import {
  type AnthropicErrorBody,
  anthropicErrorBody,
  type Block,
  type CallBlock,
  type MessageEvent,
  type MessageObject,
  type Stop,
  type TextBlock,
  type ThinkingBlock,
  type Usage,
} from './answers.ts';

/** An answer of Anthropic's API, whole or as events. */

/** The members of the request that its answer needs. */
interface Asked {
  readonly model: string;
  readonly max_tokens: number;
}

/** What the parts of a message have in common. */
interface Message extends Asked {
  readonly facts: Facts;
}

export function messageEncoding(request: Asked): Encoding {
  const messageOf = (facts: Facts): Message => ({ ...request, facts });
  return {
    whole: (facts, [choice]) => {
      if (choice === undefined) throw new Error('A message has one choice.');
      const message = messageOf(facts);
      const { thought, text, calls, end } = choice;
      // A call that is cut off is left out: its input would not be an object.
      const content: Block[] = inOrder(text, calls.slice(0, end.numCalls)).map((item) => {
        return typeof item === 'string'
          ? textBlock(item)
          : callBlock(facts, item, new RawJson(item.arguments));
      });
      if (content.length === 0) content.push(textBlock(''));
      if (thought !== undefined) content.unshift(thinkingBlock(thought, signatureOf(facts)));
      return jsonText(messageObject(message, content, stopOf(message, end), usageOf(message, end)));
    },
    stream: (facts, outlet) => new MessageEvents(messageOf(facts), outlet),
    failureEvent: (error, requestId) => event(anthropicErrorBody(error, requestId ?? '')),
  };
}

/** The reason of the end, with its marks. */
function stopOf(message: Message, end: AnswerEnd): Stop {
  return {
    stop_reason: stopReason(message, end),
    stop_sequence: end.stopMatched,
    ...marks(end),
  };
}

function stopReason(
  { max_tokens, facts: { maxTokensOut } }: Message,
  { reason, numTokens, numCalls = 0 }: AnswerEnd,
): Stop['stop_reason'] {
  if (reason === 'eos') return numCalls > 0 ? 'tool_use' : 'end_turn';
  if (reason === 'stop_sequence') return reason;
  if (reason === 'time_limit' || numTokens >= Math.min(max_tokens, maxTokensOut)) return 'max_tokens';
  return 'model_context_window_exceeded';
}

/**
 * The usage. Prompt tokens that were found in the cache are counted apart from the others. end: undefined before it is
 * known.
 */
function usageOf({ facts: { numPromptTokens } }: Message, end: AnswerEnd | undefined): Usage {
  const numCachedTokens = end?.numCachedTokens ?? 0;
  return {
    input_tokens: numPromptTokens - numCachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: numCachedTokens,
    output_tokens: end?.numTokens ?? 0,
  };
}

function messageObject(
  { model, facts: { uuid } }: Message,
  content: Block[],
  stop: Stop,
  usage: Usage,
): MessageObject {
  return { id: `msg_${uuid}`, type: 'message', role: 'assistant', model, content, ...stop, usage };
}

function event(data: MessageEvent | AnthropicErrorBody): string {
  return namedEvent(data.type, JSON.stringify(data));
}

const OPEN = { stop_reason: null, stop_sequence: null };

/**
 * Writes an answer as events: message_start, one or several blocks with their deltas, message_delta with the reason of
 * the end and the usage, message_stop. A failure becomes an event `error`, which clients raise.
 */
class MessageEvents implements EventEncoder {
  readonly #message: Message;
  readonly #outlet: EventOutlet;
  readonly #blocks: BlockEvents;

  /** Writes the opening. */
  constructor(message: Message, outlet: EventOutlet) {
    this.#message = message;
    this.#outlet = outlet;
    const begun = messageObject(message, [], OPEN, usageOf(message, undefined));
    outlet.write(event({ type: 'message_start', message: begun }));
    this.#blocks = new BlockEvents(message.facts, outlet);
    // An answer that may think or call tools begins its first block when its kind is known.
    if (message.facts.beginsWithText) this.#blocks.beginText();
    outlet.write(event({ type: 'ping' }));
  }

  onPart({ thought, pieces, calls = [], end }: AnswerPart): void {
    if (thought !== undefined) this.#blocks.thought(thought);
    for (const item of inOrder(textOf(pieces), calls)) {
      if (typeof item === 'string') this.#blocks.text(item);
      else this.#blocks.call(item);
    }
    if (end === undefined) return;
    this.#blocks.end();
    const { stop_reason, stop_sequence, ...more } = stopOf(this.#message, end);
    const delta = { stop_reason, stop_sequence };
    const usage = usageOf(this.#message, end);
    this.#outlet.write(event({ type: 'message_delta', delta, usage, ...more }));
    this.#outlet.write(event({ type: 'message_stop' }));
    this.#outlet.end();
  }

  onFailure(error: ApiError): void {
    this.#outlet.write(event(anthropicErrorBody(error, this.#message.facts.requestId ?? '')));
    this.#outlet.end();
  }
}

export function textBlock(text: string): TextBlock {
  return { type: 'text', text };
}

export function thinkingBlock(thinking: string, signature: string): ThinkingBlock {
  return { type: 'thinking', thinking, signature };
}

/** The signature of a thinking block, which Anthropic's clients require. Nobody checks it. */
function signatureOf({ uuid }: Facts): string {
  return `sig_${uuid}`;
}

export function callBlock({ uuid }: Facts, { index, name = '' }: CallPiece, input: object): CallBlock {
  return { type: 'tool_use', id: `toolu_${callDigits(uuid)}_${index}`, name, input };
}

/** The begin of an event with a part of a block's content; the block's index follows. */
const DELTA = 'event: content_block_delta\ndata: {"type":"content_block_delta","index":';
const DELTA_END = '}}\n\n';

/** Writes the blocks of an answer as events, one after the other: each has a start, its deltas and a stop. */
class BlockEvents {
  readonly #facts: Facts;
  readonly #outlet: EventOutlet;
  #index = -1;
  /** The kind of the last block. */
  #last: 'thought' | 'text' | 'call' | undefined;
  /** The text before the content in each delta of the last block. */
  #delta = '';

  constructor(facts: Facts, outlet: EventOutlet) {
    this.#facts = facts;
    this.#outlet = outlet;
  }

  thought(thought: string): void {
    if (this.#last !== 'thought')
      this.#begin('thought', thinkingBlock('', ''), '{"type":"thinking_delta","thinking":');
    this.#write(thought);
  }

  beginText(): void {
    this.#begin('text', textBlock(''), '{"type":"text_delta","text":');
  }

  text(text: string): void {
    if (this.#last !== 'text') this.beginText();
    this.#write(text);
  }

  /** Writes a whole call, or the next piece of the last one. */
  call(piece: CallPiece): void {
    const isNew = piece.name !== undefined;
    if (isNew)
      this.#begin('call', callBlock(this.#facts, piece, {}), '{"type":"input_json_delta","partial_json":');
    if (isNew || piece.arguments !== '') this.#write(piece.arguments);
  }

  /** Ends the last block. An answer has at least one block besides thinking. */
  end(): void {
    if (this.#last === undefined || this.#last === 'thought') this.beginText();
    this.#stop();
  }

  #begin(kind: 'thought' | 'text' | 'call', content_block: Block, delta: string): void {
    if (this.#last !== undefined) this.#stop();
    this.#last = kind;
    this.#index++;
    this.#delta = `${DELTA}${this.#index},"delta":${delta}`;
    this.#event({ type: 'content_block_start', index: this.#index, content_block });
  }

  #stop(): void {
    if (this.#last === 'thought') {
      const delta = { type: 'signature_delta' as const, signature: signatureOf(this.#facts) };
      this.#event({ type: 'content_block_delta', index: this.#index, delta });
    }
    this.#event({ type: 'content_block_stop', index: this.#index });
  }

  #write(content: string): void {
    this.#outlet.write(this.#delta + JSON.stringify(content) + DELTA_END);
  }

  #event(data: MessageEvent): void {
    this.#outlet.write(namedEvent(data.type, JSON.stringify(data)));
  }
}
