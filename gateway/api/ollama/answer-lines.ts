import type { AnswerTimings } from '../../generation/answer-timings.ts';
import type { AnswerEnd, AnswerPart, EndReason, TextSink } from '../../generation/text-stream.ts';
import { appendCalls, type CallPiece, inOrder } from '../../generation/tool-call-parser.ts';
import { toApiError } from '../../server/to-api-error.ts';
import { jsonText } from '../json-text.ts';
import { endedBy, mark } from '../openai/completion.ts';
import type { EventOutlet } from '../openai/completion-events.ts';
import { type FinishedText, textOf } from '../whole-text.ts';
import type { AnswerEndFields, ChatMessageText, NamedLine, ResponseText } from './answers.ts';
import { ollamaErrorBody } from './errors.ts';
import type { Durations } from './timings.ts';

/** Answers of Ollama's generating routes: one object, or a line for each piece of text and a last one with the counts. */

export interface Answer {
  /** The name in the request. */
  readonly model: string;
  readonly numPromptTokens: number;
  /** Makes the route's fields for a text, the tool calls in it, and the thinking before it, which may be undefined. */
  readonly textAs: (
    text: string,
    calls: readonly WholeCall[],
    thinking?: string,
  ) => ChatMessageText | ResponseText;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly durations: (timings: AnswerTimings | undefined) => Durations;
  /** The id of a call, by its index among the answer's calls. */
  readonly callId: (call: number) => string;
}

/** A tool call. The arguments are complete, as JSON text. */
export interface WholeCall {
  readonly id: string;
  readonly index: number;
  readonly name: string;
  readonly arguments: string;
}

function wholeCall(
  { callId }: Pick<Answer, 'callId'>,
  { index, name = '', arguments: given }: CallPiece,
): WholeCall {
  return { id: callId(index), index, name, arguments: given };
}

type Named = Pick<Answer, 'model' | 'now' | 'textAs'>;

const DONE_REASONS: Record<EndReason, 'stop' | 'length'> = {
  eos: 'stop',
  stop_sequence: 'stop',
  max_tokens: 'length',
  time_limit: 'length',
};

type Line = NamedLine & (ChatMessageText | ResponseText);

function line(
  { model, now, textAs }: Named,
  text: string,
  calls: readonly WholeCall[] = [],
  thinking?: string,
): Line {
  return { model, created_at: new Date(now()).toISOString(), ...textAs(text, calls, thinking) };
}

type LastLine = Line & AnswerEndFields;

function lastLine(
  answer: Answer,
  text: string,
  end: AnswerEnd,
  calls: readonly WholeCall[] = [],
  thinking?: string,
): LastLine {
  const { total_duration, load_duration, prompt_eval_duration, eval_duration } = answer.durations(
    end.timings,
  );
  return {
    ...line(answer, text, calls, thinking),
    done: true,
    done_reason: DONE_REASONS[end.reason],
    total_duration,
    load_duration,
    prompt_eval_count: answer.numPromptTokens,
    prompt_eval_duration,
    eval_count: end.numTokens,
    eval_duration,
    ...endedBy(end),
    ...mark(end),
  };
}

/** The whole answer. It leaves out a call that is cut off: the call's arguments would not be an object. */
export function wholeAnswer(answer: Answer, { thought, text, calls, end }: FinishedText): LastLine {
  const whole = calls.slice(0, end.numCalls).map((call) => wholeCall(answer, call));
  return lastLine(answer, text, end, whole, thought === '' ? undefined : thought);
}

/** The answer to a request without a prompt: the model is loaded. */
export function loadedAnswer(answer: Named): LastLine {
  return { ...line(answer, ''), done: true, done_reason: 'load' };
}

/** The answer to a request to unload a model: it is unloaded, or will be when its requests are done. */
export function unloadedAnswer(answer: Named): LastLine {
  return { ...line(answer, ''), done: true, done_reason: 'unload' };
}

/** Writes a stream of lines. A failure becomes a line with an error, which clients raise: a stream never just stops. */
export class AnswerLines implements TextSink {
  readonly #answer: Answer;
  /** Called with the error that ended the stream early. The client sees only what toApiError lets through. */
  readonly #onFailure: (error: unknown) => void;
  readonly #outlet: EventOutlet;
  readonly #calls: CallPiece[] = [];
  #numToldCalls = 0;

  constructor(answer: Answer, onFailure: (error: unknown) => void, outlet: EventOutlet) {
    this.#answer = answer;
    this.#onFailure = onFailure;
    this.#outlet = outlet;
  }

  onPart({ thought, pieces, calls = [], numWholeCalls = 0, end }: AnswerPart): void {
    if (thought !== undefined) this.#write({ ...line(this.#answer, '', [], thought), done: false });
    const text = textOf(pieces);
    if (calls.length === 0) this.#text(text);
    for (const item of calls.length === 0 ? [] : inOrder(text, calls)) {
      if (typeof item !== 'string') appendCalls(this.#calls, [item]);
      else {
        // Text comes after a call only when the call is complete.
        this.#tellCalls(this.#calls.length);
        this.#text(item);
      }
    }
    this.#tellCalls(numWholeCalls);
    if (end === undefined) return;
    this.#write(lastLine(this.#answer, '', end));
    this.#outlet.end();
  }

  onError(error: unknown): void {
    this.#onFailure(error);
    this.#write(ollamaErrorBody(toApiError(error)));
    this.#outlet.end();
  }

  #text(text: string): void {
    if (text !== '') this.#write({ ...line(this.#answer, text), done: false });
  }

  /** Writes a line for each call that has none yet, until numCalls have one. */
  #tellCalls(numCalls: number): void {
    for (const call of this.#calls.slice(this.#numToldCalls, numCalls)) {
      const told = line(this.#answer, '', [wholeCall(this.#answer, call)]);
      this.#outlet.write(`${jsonText({ ...told, done: false })}\n`);
      this.#numToldCalls++;
    }
  }

  #write(object: object): void {
    this.#outlet.write(`${JSON.stringify(object)}\n`);
  }
}
