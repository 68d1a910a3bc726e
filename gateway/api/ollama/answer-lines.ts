import {
  callDigits,
  type Encoding,
  type EventEncoder,
  type EventOutlet,
  type Facts,
} from '../../calls/call.ts';
import { type FinishedChoice, textOf } from '../../calls/whole-answer.ts';
import type { ApiError } from '../../errors/api-error.ts';
import { type AnswerEnd, type AnswerPart, isCutShort } from '../../generation/text-stream.ts';
import { appendCalls, type CallPiece, inOrder } from '../../generation/tool-call-parser.ts';
import { jsonText } from '../../json/json-text.ts';
import { LINES_TYPE } from '../../server/route-group.ts';
import { marks } from '../answer-fields.ts';
import {
  type AnswerEndFields,
  type ChatMessageText,
  type NamedLine,
  ollamaErrorBody,
  type ResponseText,
} from './answers.ts';

/** Answers of Ollama's generating routes: one object, or a line for each piece of text and a last one with the counts. */

/** What each line of an answer has. */
export interface Form {
  /** The name in the request. */
  readonly model: string;
  /** Makes the route's fields for a text, the tool calls in it, and the thinking before it, which may be undefined. */
  readonly textAs: (
    text: string,
    calls: readonly WholeCall[],
    thinking?: string,
  ) => ChatMessageText | ResponseText;
}

interface Named extends Form {
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

interface Answer extends Named {
  readonly facts: Facts;
}

export function answerEncoding(form: Form): Encoding {
  const answerOf = (facts: Facts): Answer => ({ ...form, now: facts.now, facts });
  return {
    whole: (facts, [choice]) => {
      if (choice === undefined) throw new Error('An answer has one choice.');
      return jsonText(wholeAnswer(answerOf(facts), choice));
    },
    stream: (facts, outlet) => new AnswerLines(answerOf(facts), outlet),
    form: { type: LINES_TYPE, encoding: 'utf8' },
  };
}

/** A tool call. The arguments are complete, as JSON text. */
export interface WholeCall {
  readonly id: string;
  readonly index: number;
  readonly name: string;
  readonly arguments: string;
}

function wholeCall({ facts }: Answer, { index, name = '', arguments: given }: CallPiece): WholeCall {
  return { id: `call_${callDigits(facts.uuid)}_${index}`, index, name, arguments: given };
}

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
  const { total_duration, load_duration, prompt_eval_duration, eval_duration } = durations(answer, end);
  return {
    ...line(answer, text, calls, thinking),
    done: true,
    done_reason: isCutShort(end) ? 'length' : 'stop',
    total_duration,
    load_duration,
    prompt_eval_count: answer.facts.numPromptTokens,
    prompt_eval_duration,
    eval_count: end.numTokens,
    eval_duration,
    ...marks(end),
  };
}

const NS_PER_MS = 1e6;

/** How long the parts of an answer took, in nanoseconds. The call reports its timings. */
function durations(
  { facts }: Answer,
  { timings }: AnswerEnd,
): Pick<
  Required<AnswerEndFields>,
  'total_duration' | 'load_duration' | 'prompt_eval_duration' | 'eval_duration'
> {
  // The times of its parts are not known of an answer that is kept: all of it counts as the answer's.
  const total_ms = timings?.total_ms ?? facts.elapsedMs();
  const { prefill_ms = null, first_token_ms = 0 } = timings ?? {};
  const ns = (ms: number): number => Math.round(ms * NS_PER_MS);
  return {
    total_duration: ns(facts.preparedInMs + total_ms),
    load_duration: ns(facts.modelInMs),
    // By the runner's clock.
    prompt_eval_duration: ns(prefill_ms ?? 0),
    eval_duration: ns(total_ms - (first_token_ms ?? total_ms)),
  };
}

/** The whole answer. It leaves out a call that is cut off: the call's arguments would not be an object. */
function wholeAnswer(answer: Answer, { thought, text, calls, end }: FinishedChoice): LastLine {
  const whole = calls.slice(0, end.numCalls).map((call) => wholeCall(answer, call));
  return lastLine(answer, text, end, whole, thought);
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
class AnswerLines implements EventEncoder {
  readonly #answer: Answer;
  readonly #outlet: EventOutlet;
  readonly #calls: CallPiece[] = [];
  #numToldCalls = 0;

  constructor(answer: Answer, outlet: EventOutlet) {
    this.#answer = answer;
    this.#outlet = outlet;
  }

  onPart({ thought, pieces, calls = [], numWholeCalls = 0, end }: AnswerPart): void {
    if (thought !== undefined) this.#write({ ...line(this.#answer, '', [], thought), done: false });
    for (const item of inOrder(textOf(pieces), calls)) {
      if (typeof item !== 'string') appendCalls(this.#calls, [item]);
      else {
        // Text comes after a call only when the call is complete.
        this.#tellCalls(this.#calls.length);
        this.#write({ ...line(this.#answer, item), done: false });
      }
    }
    this.#tellCalls(numWholeCalls);
    if (end === undefined) return;
    this.#write(lastLine(this.#answer, '', end));
    this.#outlet.end();
  }

  onFailure(error: ApiError): void {
    this.#write(ollamaErrorBody(error));
    this.#outlet.end();
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
