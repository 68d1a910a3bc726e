import type { Encoding, EventEncoder, EventOutlet, Facts } from '../../calls/call.ts';
import { textOf } from '../../calls/whole-answer.ts';
import type { ApiError } from '../../errors/api-error.ts';
import type { AnswerEnd, AnswerPart } from '../../generation/text-stream.ts';
import { inOrder } from '../../generation/tool-call-parser.ts';
import { jsonText, RawJson } from '../../json/json-text.ts';
import { namedEvent } from '../../server/streams/sse.ts';
import { endedBy, mark } from '../answer-fields.ts';
import type { Block, MessageEvent, MessageObject, Stop, Usage } from './answers.ts';
import { BlockEvents, callBlock, signatureOf, textBlock, thinkingBlock } from './blocks.ts';
import { type AnthropicErrorBody, anthropicErrorBody } from './errors.ts';

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
    ...endedBy(end),
    ...mark(end),
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
