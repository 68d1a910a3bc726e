import type { ApiError } from '../errors/api-error.ts';
import type { ReceiptForm } from '../generation/receipt.ts';
import type { AnswerEnd, AnswerPart } from '../generation/text-stream.ts';
import type { ChatMessage, RenderOptions } from '../prompt/chat-template.ts';
import type { GenerateRequest, SamplingParams } from '../runner/runner.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import type { TokenConstraints } from './prompt.ts';
import type { ThinkingParams } from './thinking.ts';
import type { AnswerForm, ToolParams } from './tool-offer.ts';
import type { FinishedChoice } from './whole-answer.ts';

/**
 * A call: what a client asks of a model, whatever API it uses. Each API makes calls of its bodies, and encodes what answer.ts
 * answers. Members that a body leaves out have the same meaning in all APIs.
 */
export interface Call {
  /** The model's name; undefined: the default model. */
  readonly model?: string | undefined;
  readonly isStreamed: boolean;
  readonly input: ConversationInput | PromptInput;
  readonly tools?: ToolParams | undefined;
  readonly format?: AnswerForm | undefined;
  readonly thinking: ThinkingParams;
  /** What differs from neutral sampling. */
  readonly sampling: Partial<Omit<SamplingParams, 'seed' | 'allowedTokenIds' | 'bannedTokenIds'>>;
  /** A random one by default. */
  readonly seed?: bigint | undefined;
  readonly tokens?: TokenConstraints;
  /** Undefined: the context bounds the answer. 0: only the prompt is reported. */
  readonly maxTokens?: number | undefined;
  /** The most tokens of prompt and answer; it cannot make the model's context larger. */
  readonly maxContext?: number | undefined;
  /** Strings that end the answer and are not part of it. */
  readonly stop: readonly string[];
  /** Answers to each prompt, 1 by default. Answer i is drawn by the seed plus i. */
  readonly numChoices?: number;
  readonly report?: Report;
  /** The order among the calls of one caller, lower first; 0 by default. */
  readonly priority?: number;
  /** The id that the client gave its job. The call is streamed. */
  readonly jobId?: string;
  /**
   * The job goes on without its client, and the journal keeps it: its events can be read again. background: it is answered before it
   * has ended. Such a call has one choice.
   */
  readonly durable?: 'durable' | 'background' | undefined;
  /** Undefined: the answer has no receipt, unless the server gives all answers one. */
  readonly receipt?: ReceiptForm | undefined;
  /** The journal keeps the answer when it has ended, so that it can be read again: always, or if there is room. It has one choice. */
  readonly stored?: 'required' | 'if-possible' | undefined;
  /** What was said up to the answer, as JSON in the API's words, for an answer that can be continued from what is kept of it. */
  readonly history?: () => string;
  /** When the client wants no answer any more, in milliseconds since 1970. */
  readonly deadlineMs?: number | undefined;
  /** Whether a time limit fails an answer that has begun, instead of ending it with what there is. */
  readonly failsAtTimeLimit?: boolean;
}

/** A conversation, which the model's template renders. */
interface ConversationInput {
  /** The field that refusals name. */
  readonly field: string;
  readonly messages: readonly ChatMessage[];
  readonly template?: Omit<RenderOptions, 'tools'>;
  /** The prompt of a model without a template; undefined: the call is refused. */
  readonly withoutTemplate?: string | undefined;
}

/** Prompts that no template sees: texts or ids. */
interface PromptInput {
  /** The field that refusals name; with several prompts, their index follows. */
  readonly field: string;
  readonly prompts: readonly (string | readonly number[])[];
  /** What is behind each answer: the model fills the gap. Empty: nothing. */
  readonly suffix?: string;
}

/** What an answer has besides its text. */
export interface Report {
  /** Log-probabilities: each token's own and those of this many most likely ones. Undefined: none. */
  readonly topLogprobs?: number | undefined;
  /** Whether the answer begins with its prompt, also in the log-probabilities. */
  readonly isEchoed?: boolean;
  readonly timings?: boolean;
  /** Whether the thinking stays in the text, with its marks. */
  readonly thinkingInText?: boolean;
}

/** What an encoder knows of an answer before its first part. */
export interface Facts {
  /** Of this answer alone: its ids are made from it. */
  readonly uuid: string;
  /** The id of the request; undefined where an API has none. */
  readonly requestId: string | undefined;
  /** When the answer was begun, in milliseconds since 1970, and the time from the request to then and to the model. */
  readonly createdMs: number;
  readonly preparedInMs: number;
  readonly modelInMs: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Milliseconds since the answer was begun. */
  readonly elapsedMs: () => number;
  /** The device memory in use. */
  readonly vramBytes: () => number;
  /** The model's name: the one in the request, or the model's own. */
  readonly modelId: string;
  /** Of the first choice. */
  readonly seed: bigint;
  /** The numerics id of the runner that takes the request. */
  readonly numericsId: string;
  readonly tokenizer: Tokenizer;
  /** Tokens of all prompts, each counted once however many choices it has. */
  readonly numPromptTokens: number;
  readonly numChoices: number;
  /** The choices of one prompt are consecutive. */
  readonly numChoicesPerPrompt: number;
  /** The server's limit of an answer; the context may leave less. */
  readonly maxTokensOut: number;
  /** Whether the journal has the answer or, before its end, is to have it. */
  isKept(): boolean;
  /** Whether the answer can neither think nor call tools. */
  readonly beginsWithText: boolean;
}

/**
 * Digits of a UUID that tell the calls of one answer from those of all others. They are few enough for APIs that bound
 * the length of call ids.
 */
export function callDigits(uuid: string): string {
  return uuid.replaceAll('-', '').slice(0, 24);
}

/** Where events are written. */
export interface EventOutlet {
  /** text: one event. */
  write(text: string): void;
  end(): void;
  /** The number of the next event, if events can be read again: a client resumes behind it. */
  readonly nextId?: number;
}

/** Writes an answer as it comes, and calls end() of its outlet after the last event. */
export interface EventEncoder {
  /** index: the index of the choice. */
  onPart(part: AnswerPart, index: number): void;
  /** Called in place of further parts: a stream never just stops. */
  onFailure(error: ApiError): void;
}

/** How an API writes the answer to a call. */
export interface Encoding {
  /** The body of a whole answer, as JSON. */
  whole(facts: Facts, choices: readonly FinishedChoice[]): string;
  /** Begins a stream. */
  stream(facts: Facts, outlet: EventOutlet): EventEncoder;
  /** The event for a failure before the answer began. Absent: streams are no server-sent events. */
  readonly failureEvent?: (error: ApiError, requestId: string | undefined) => string;
  /** What streams consist of; server-sent events by default. */
  readonly form?: { readonly type: string; readonly encoding: 'utf8' | 'latin1' };
  /** The id of a job without one of its client's; the answer's UUID by default. */
  readonly jobId?: (uuid: string) => string;
  /**
   * Makes the body of an answer in the background, as it is now: onStage is called with it, and again at the end, before onEnd.
   */
  readonly stages?: (facts: Facts, onStage: (body: string) => void, onEnd: () => void) => EventEncoder;
}

/** The log of a call that has lines of its own. It never has content of prompt or answer. */
export interface CallLog {
  begun(request: GenerateRequest): void;
  ended(end: Pick<AnswerEnd, 'reason' | 'numTokens'>): void;
  failed(thrown: unknown): void;
  /** Nothing more will come: the answer has ended, or its client has left. */
  over(): void;
}

/** What an API makes of a body. */
export interface ParsedCall {
  readonly call: Call;
  /** The names of the fields that were sent and are ignored. */
  readonly ignored: readonly string[];
  readonly encoding: Encoding;
  /** Absent: the call is logged as a request. */
  readonly log?: CallLog;
}
