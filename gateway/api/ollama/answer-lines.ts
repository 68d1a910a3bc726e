import type { AnswerEnd, AnswerPart, EndReason, TextSink } from '../../generation/text-stream.ts';
import { toApiError } from '../../server/to-api-error.ts';
import { endedBy, mark } from '../openai/completion.ts';
import type { EventOutlet } from '../openai/completion-events.ts';
import { type FinishedText, textOf } from '../whole-text.ts';
import { ollamaErrorBody } from './errors.ts';
import type { Durations } from './timings.ts';

/** Answers of Ollama's generating routes: one object, or a line for each piece of text and a last one with what was counted. */

export interface Answer {
  /** As the request names it. */
  readonly model: string;
  readonly numPromptTokens: number;
  /** Where a route has its text. */
  readonly textAs: (text: string) => object;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly durations: () => Durations;
}

const DONE_REASONS: Record<EndReason, 'stop' | 'length'> = {
  eos: 'stop',
  stop_sequence: 'stop',
  max_tokens: 'length',
  time_limit: 'length',
};

function line({ model, now, textAs }: Pick<Answer, 'model' | 'now' | 'textAs'>, text: string): object {
  return { model, created_at: new Date(now()).toISOString(), ...textAs(text) };
}

function lastLine(answer: Answer, text: string, end: AnswerEnd): object {
  const { total_duration, load_duration, prompt_eval_duration, eval_duration } = answer.durations();
  return {
    ...line(answer, text),
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

export function wholeAnswer(answer: Answer, { text, end }: FinishedText): object {
  return lastLine(answer, text, end);
}

/** What is answered to who asks for nothing: the model is there. */
export function loadedAnswer(answer: Pick<Answer, 'model' | 'now' | 'textAs'>): object {
  return { ...line(answer, ''), done: true, done_reason: 'load' };
}

/** What is answered to who asks for a model to be unloaded: it is, or will be when its requests are done. */
export function unloadedAnswer(answer: Pick<Answer, 'model' | 'now' | 'textAs'>): object {
  return { ...line(answer, ''), done: true, done_reason: 'unload' };
}

/** A stream: a failure becomes a line with an error, which clients raise; a stream never just stops. */
export class AnswerLines implements TextSink {
  readonly #answer: Answer;
  /** Sees what ended the stream before its time; the client sees only what toApiError lets through. */
  readonly #onFailure: (error: unknown) => void;
  readonly #outlet: EventOutlet;

  constructor(answer: Answer, onFailure: (error: unknown) => void, outlet: EventOutlet) {
    this.#answer = answer;
    this.#onFailure = onFailure;
    this.#outlet = outlet;
  }

  onPart({ pieces, end }: AnswerPart): void {
    const text = textOf(pieces);
    if (text !== '') this.#write({ ...line(this.#answer, text), done: false });
    if (end === undefined) return;
    this.#write(lastLine(this.#answer, '', end));
    this.#outlet.end();
  }

  onError(error: unknown): void {
    this.#onFailure(error);
    this.#write(ollamaErrorBody(toApiError(error)));
    this.#outlet.end();
  }

  #write(object: object): void {
    this.#outlet.write(`${JSON.stringify(object)}\n`);
  }
}
