import * as z from 'zod';
import {
  callDigits,
  type Encoding,
  type EventEncoder,
  type EventOutlet,
  type Facts,
} from '../../calls/call.ts';
import type { ApiError } from '../../errors/api-error.ts';
import type { AnswerEnd, AnswerPart } from '../../generation/text-stream.ts';
import { type CallPiece, inOrder } from '../../generation/tool-call-parser.ts';
import { jsonText, RawJson } from '../../json/json-values.ts';
import { namedEvent } from '../../server/streams/response-stream.ts';
import { endingFields, markFields, marks } from '../answer-fields.ts';

/** An answer of Anthropic's API, whole or as events. */

const block = z
  .discriminatedUnion('type', [
    /** The signature is made by the gateway. It is empty in the event that begins a block. */
    z.object({ type: z.literal('thinking'), thinking: z.string(), signature: z.string() }),
    z.object({ type: z.literal('text'), text: z.string() }),
    z.object({
      type: z.literal('tool_use'),
      id: z.string(),
      name: z.string(),
      /** JSON text as the model wrote it. */
      input: z.custom<object>().meta({ type: 'object' }),
    }),
  ])
  .meta({ title: 'ContentBlock' });
type Block = z.infer<typeof block>;

const stopFields = {
  stop_reason: z
    .enum(['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'model_context_window_exceeded'])
    .nullable(),
  stop_sequence: z.string().nullable(),
};
const moreOfEnd = { ...endingFields, ...markFields };
type Stop = z.infer<z.ZodObject<typeof stopFields & typeof moreOfEnd>>;

const usageSchema = z
  .object({
    input_tokens: z.int(),
    cache_creation_input_tokens: z.int(),
    cache_read_input_tokens: z.int(),
    output_tokens: z.int(),
  })
  .meta({ title: 'MessageUsage' });

export const messageSchema = z
  .object({
    id: z.string(),
    type: z.literal('message'),
    role: z.literal('assistant'),
    model: z.string(),
    content: z.array(block),
    ...stopFields,
    ...moreOfEnd,
    usage: usageSchema,
  })
  .meta({ title: 'Message' });

export const tokenCountSchema = z.object({ input_tokens: z.int() }).meta({ title: 'TokenCount' });

const delta = z.discriminatedUnion('type', [
  z.object({ type: z.literal('thinking_delta'), thinking: z.string() }),
  z.object({ type: z.literal('signature_delta'), signature: z.string() }),
  z.object({ type: z.literal('text_delta'), text: z.string() }),
  z.object({ type: z.literal('input_json_delta'), partial_json: z.string() }),
]);

function eventSchema<Type extends string, Fields extends z.ZodRawShape>(type: Type, fields: Fields) {
  return z.object({ type: z.literal(type), ...fields }).meta({ title: type });
}

/** The events by name, all but the error. */
export const messageEventSchemas = {
  message_start: eventSchema('message_start', { message: messageSchema }),
  ping: eventSchema('ping', {}),
  content_block_start: eventSchema('content_block_start', { index: z.int(), content_block: block }),
  content_block_delta: eventSchema('content_block_delta', { index: z.int(), delta }),
  content_block_stop: eventSchema('content_block_stop', { index: z.int() }),
  message_delta: eventSchema('message_delta', {
    delta: z.object(stopFields),
    usage: usageSchema,
    ...moreOfEnd,
  }),
  message_stop: eventSchema('message_stop', {}),
};

type EventSchemas = typeof messageEventSchemas;
type MessageEvent = { [Name in keyof EventSchemas]: z.infer<EventSchemas[Name]> }[keyof EventSchemas];

/** The error object that Anthropic's clients parse. It is also the data of an event in a stream that has begun. */
export const anthropicErrorSchema = z
  .object({
    type: z.literal('error'),
    error: z.object({
      type: z.string(),
      message: z.string(),
      details: z.object({ error_code: z.string() }).optional(),
    }),
    request_id: z.string(),
  })
  .meta({ title: 'AnthropicError' });
type ErrorBody = z.infer<typeof anthropicErrorSchema>;

/** The code of a request for a kept conversation. SDKs look for it, and go on without one. */
export const THREAD_UNSUPPORTED = 'thread_unsupported_request';

export function anthropicErrorBody({ code, message, status }: ApiError, request_id = ''): ErrorBody {
  const details = code === THREAD_UNSUPPORTED ? { details: { error_code: code } } : {};
  const type = ERROR_TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  return { type: 'error', error: { type, message, ...details }, request_id };
}

const ERROR_TYPES: Partial<Record<ApiError['status'], string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
};

/** The members of the request that its answer needs, and what is known of the answer. */
interface Message {
  readonly model: string;
  readonly max_tokens: number;
  readonly facts: Facts;
}

export function messageEncoding({ model, max_tokens }: Omit<Message, 'facts'>): Encoding {
  return {
    whole: (facts, [choice]) => {
      if (choice === undefined) throw new Error('A message has one choice.');
      const message = { model, max_tokens, facts };
      const { thought, text, calls, end } = choice;
      // A call that is cut off is left out: its input would not be an object.
      const content = inOrder(text, calls.slice(0, end.numCalls)).map(
        (item): Block =>
          typeof item === 'string'
            ? { type: 'text', text: item }
            : callBlock(facts, item, new RawJson(item.arguments)),
      );
      if (content.length === 0) content.push({ type: 'text', text: '' });
      if (thought !== undefined)
        content.unshift({ type: 'thinking', thinking: thought, signature: signatureOf(facts) });
      return jsonText(messageObject(message, content, stopOf(message, end), end));
    },
    stream: (facts, outlet) => new MessageEvents({ model, max_tokens, facts }, outlet),
    failureEvent: (error, requestId) => event(anthropicErrorBody(error, requestId)),
  };
}

function stopOf(message: Message, end: AnswerEnd): Stop {
  return { stop_reason: stopReason(message, end), stop_sequence: end.stopMatched, ...marks(end) };
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

/** Prompt tokens that were found in the cache are counted apart from the others. end: undefined before it is known. */
function usageOf({ facts: { numPromptTokens } }: Message, end?: AnswerEnd): z.infer<typeof usageSchema> {
  const { numCachedTokens = 0, numTokens = 0 } = end ?? {};
  return {
    input_tokens: numPromptTokens - numCachedTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: numCachedTokens,
    output_tokens: numTokens,
  };
}

function messageObject(
  message: Message,
  content: Block[],
  stop: Stop,
  end?: AnswerEnd,
): z.infer<typeof messageSchema> {
  const { model, facts } = message;
  const usage = usageOf(message, end);
  return { id: `msg_${facts.uuid}`, type: 'message', role: 'assistant', model, content, ...stop, usage };
}

function event(data: MessageEvent | ErrorBody): string {
  return namedEvent(data.type, JSON.stringify(data));
}

/** The signature of a thinking block, which Anthropic's clients require. Nobody checks it. */
function signatureOf({ uuid }: Facts): string {
  return `sig_${uuid}`;
}

function callBlock({ uuid }: Facts, { index, name = '' }: CallPiece, input: object): Block {
  return { type: 'tool_use', id: `toolu_${callDigits(uuid)}_${index}`, name, input };
}

const OPEN = { stop_reason: null, stop_sequence: null };
/** The begin of an event with a part of a block's content; the block's index follows. */
const DELTA = 'event: content_block_delta\ndata: {"type":"content_block_delta","index":';
const DELTA_END = '}}\n\n';

/**
 * Writes an answer as events: message_start, one or several blocks one after the other, each with a start, its deltas and a stop,
 * message_delta with the reason of the end and the usage, message_stop. A failure becomes an event `error`, which clients raise.
 */
class MessageEvents implements EventEncoder {
  readonly #message: Message;
  readonly #outlet: EventOutlet;
  #index = -1;
  /** The type of the last block. */
  #last: Block['type'] | undefined;
  /** The text before the content in each delta of the last block. */
  #delta = '';

  constructor(message: Message, outlet: EventOutlet) {
    this.#message = message;
    this.#outlet = outlet;
    this.#write({ type: 'message_start', message: messageObject(message, [], OPEN) });
    // An answer that may think or call tools begins its first block when its kind is known.
    if (message.facts.beginsWithText) this.#beginText();
    this.#write({ type: 'ping' });
  }

  onPart({ thought, text, calls = [], end }: AnswerPart): void {
    if (thought !== undefined) this.#tellThought(thought);
    for (const item of inOrder(text, calls)) {
      if (typeof item === 'string') this.#tellText(item);
      else this.#tellCall(item);
    }
    if (end === undefined) return;
    // An answer has at least one block besides thinking.
    if (this.#last === undefined || this.#last === 'thinking') this.#beginText();
    this.#stop();
    const { stop_reason, stop_sequence, ...more } = stopOf(this.#message, end);
    const usage = usageOf(this.#message, end);
    this.#write({ type: 'message_delta', delta: { stop_reason, stop_sequence }, usage, ...more });
    this.#write({ type: 'message_stop' });
    this.#outlet.end();
  }

  onFailure(error: ApiError): void {
    this.#outlet.write(event(anthropicErrorBody(error, this.#message.facts.requestId)));
    this.#outlet.end();
  }

  #tellThought(thought: string): void {
    if (this.#last !== 'thinking')
      this.#begin({ type: 'thinking', thinking: '', signature: '' }, '{"type":"thinking_delta","thinking":');
    this.#writeDelta(thought);
  }

  #beginText(): void {
    this.#begin({ type: 'text', text: '' }, '{"type":"text_delta","text":');
  }

  #tellText(text: string): void {
    if (this.#last !== 'text') this.#beginText();
    this.#writeDelta(text);
  }

  /** Writes a whole call, or the next piece of the last one. */
  #tellCall(piece: CallPiece): void {
    const isNew = piece.name !== undefined;
    if (isNew)
      this.#begin(callBlock(this.#message.facts, piece, {}), '{"type":"input_json_delta","partial_json":');
    if (isNew || piece.arguments !== '') this.#writeDelta(piece.arguments);
  }

  #begin(content_block: Block, delta: string): void {
    if (this.#last !== undefined) this.#stop();
    this.#last = content_block.type;
    this.#index++;
    this.#delta = `${DELTA}${this.#index},"delta":${delta}`;
    this.#write({ type: 'content_block_start', index: this.#index, content_block });
  }

  #stop(): void {
    const index = this.#index;
    if (this.#last === 'thinking') {
      const delta = { type: 'signature_delta' as const, signature: signatureOf(this.#message.facts) };
      this.#write({ type: 'content_block_delta', index, delta });
    }
    this.#write({ type: 'content_block_stop', index });
  }

  #writeDelta(content: string): void {
    this.#outlet.write(this.#delta + JSON.stringify(content) + DELTA_END);
  }

  #write(data: MessageEvent): void {
    this.#outlet.write(event(data));
  }
}
