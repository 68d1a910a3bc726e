import * as z from 'zod';
import {
  callDigits,
  type Encoding,
  type EventEncoder,
  type EventOutlet,
  type Facts,
} from '../../calls/call.ts';
import type { ApiError } from '../../errors/api-error.ts';
import { type AnswerEnd, type AnswerPart, isCutShort, type SentToken } from '../../generation/text-stream.ts';
import { appendCalls, type CallPiece, inOrder } from '../../generation/tool-call-parser.ts';
import { jsonText, RawJson } from '../../json/json-values.ts';
import { LINES_TYPE } from '../../server/route-group.ts';
import { endingFields, markFields, marks } from '../answer-fields.ts';
import { tokenLogprobSchema, tokenLogprobs } from '../token-logprobs.ts';

/** Answers of Ollama's generating routes: one object, or a line for each piece of text and a last one with the counts. */

const call = z.object({
  id: z.string(),
  function: z.object({
    index: z.int(),
    name: z.string(),
    /** JSON text as the model wrote it. */
    arguments: z.custom<object>().meta({ type: 'object' }),
  }),
});
type Call = z.infer<typeof call>;

const message = z.object({
  role: z.literal('assistant'),
  content: z.string(),
  thinking: z.string().optional(),
  tool_calls: z.array(call).optional(),
});
/** Of the tokens whose text the line has. Left out without any. */
const scores = { logprobs: z.array(tokenLogprobSchema).optional() };
type Scores = z.infer<z.ZodObject<typeof scores>>;
const responseFields = { response: z.string(), thinking: z.string().optional() };
/** What the routes have in each line. */
type Text = { readonly message: z.infer<typeof message> } | z.infer<z.ZodObject<typeof responseFields>>;

const named = { model: z.string(), created_at: z.string() };
type Line = z.infer<z.ZodObject<typeof named>> & Text;

/** Members of the last line, or of the only one. */
const endFields = {
  done: z.literal(true),
  done_reason: z.enum(['stop', 'length', 'load', 'unload']),
  total_duration: z.int().optional(),
  load_duration: z.int().optional(),
  prompt_eval_count: z.int().optional(),
  prompt_eval_duration: z.int().optional(),
  eval_count: z.int().optional(),
  eval_duration: z.int().optional(),
  ...endingFields,
  ...markFields,
};
type LastLine = Line & z.infer<z.ZodObject<typeof endFields>>;

const more = { done: z.literal(false) };
export const chatSchema = z
  .object({ ...named, message, ...scores, ...endFields })
  .meta({ title: 'OllamaChat' });
export const chatLineSchema = z
  .object({ ...named, message, ...scores, ...more })
  .meta({ title: 'OllamaChatLine' });
export const generateSchema = z
  .object({ ...named, ...responseFields, ...scores, ...endFields })
  .meta({ title: 'OllamaGenerate' });
export const generateLineSchema = z
  .object({ ...named, ...responseFields, ...scores, ...more })
  .meta({ title: 'OllamaGenerateLine' });

/** The error object. It is also the last line of a stream that has begun. */
export const ollamaErrorSchema = z.object({ error: z.string() }).meta({ title: 'OllamaError' });

export function ollamaErrorBody({ message }: ApiError): z.infer<typeof ollamaErrorSchema> {
  return { error: message };
}

/** What each line of an answer has. */
export interface Form {
  /** The name in the request. */
  readonly model: string;
  /** Makes the route's fields for a text, the tool calls in it, and the thinking before it, which may be undefined. */
  readonly textAs: (text: string, calls: readonly Call[], thinking?: string) => Text;
}

interface Answer extends Form {
  readonly facts: Facts;
}

export function answerEncoding(form: Form): Encoding {
  return {
    whole: (facts, [choice]) => {
      if (choice === undefined) throw new Error('An answer has one choice.');
      const { thought, text, calls, end, sentTokens } = choice;
      // A call that is cut off is left out: its arguments would not be an object.
      const whole = calls.slice(0, end.numCalls).map((piece) => wholeCall(facts, piece));
      const last = lastLine({ ...form, facts }, end, text, whole, thought);
      return jsonText({ ...last, ...scoresOf(facts, sentTokens) });
    },
    stream: (facts, outlet) => new AnswerLines({ ...form, facts }, outlet),
    form: { type: LINES_TYPE, encoding: 'utf8' },
  };
}

function scoresOf({ tokenizer }: Facts, tokens: readonly SentToken[] = []): Scores {
  return tokens.length === 0 ? {} : { logprobs: tokenLogprobs(tokenizer, tokens) };
}

function wholeCall({ uuid }: Facts, { index, name = '', arguments: given }: CallPiece): Call {
  return {
    id: `call_${callDigits(uuid)}_${index}`,
    function: { index, name, arguments: new RawJson(given) },
  };
}

/** nowMs: since 1970. */
function line({ model, textAs }: Form, nowMs: number, ...text: Parameters<Form['textAs']>): Line {
  return { model, created_at: new Date(nowMs).toISOString(), ...textAs(...text) };
}

function lastLine(
  answer: Answer,
  end: AnswerEnd,
  text = '',
  calls: readonly Call[] = [],
  thinking?: string,
): LastLine {
  const { facts } = answer;
  // The times of its parts are not known of an answer that is kept: all of it counts as the answer's.
  const totalMs = end.timings?.total_ms ?? facts.elapsedMs();
  const { prefill_ms = null, first_token_ms = 0 } = end.timings ?? {};
  return {
    ...line(answer, facts.now(), text, calls, thinking),
    done: true,
    done_reason: isCutShort(end) ? 'length' : 'stop',
    total_duration: nanoseconds(facts.preparedInMs + totalMs),
    load_duration: nanoseconds(facts.modelInMs),
    prompt_eval_count: facts.numPromptTokens,
    // By the runner's clock.
    prompt_eval_duration: nanoseconds(prefill_ms ?? 0),
    eval_count: end.numTokens,
    eval_duration: nanoseconds(totalMs - (first_token_ms ?? totalMs)),
    ...marks(end),
  };
}

function nanoseconds(ms: number): number {
  return Math.round(ms * 1e6);
}

/** The answer to a request without a prompt. load: the model is loaded; unload: it is not, or will not be when its requests are done. */
export function emptyAnswer(form: Form, nowMs: number, done_reason: 'load' | 'unload'): LastLine {
  return { ...line(form, nowMs, '', []), done: true, done_reason };
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

  onPart({ thought, text, calls = [], numWholeCalls = 0, sentTokens, end }: AnswerPart): void {
    if (thought !== undefined) this.#tell('', [], thought);
    for (const item of inOrder(text, calls)) {
      if (typeof item !== 'string') appendCalls(this.#calls, [item]);
      else {
        // Text comes after a call only when the call is complete.
        this.#tellCalls(this.#calls.length);
        this.#tell(item, [], undefined, sentTokens);
      }
    }
    this.#tellCalls(numWholeCalls);
    if (end === undefined) return;
    this.#write(JSON.stringify(lastLine(this.#answer, end)));
    this.#outlet.end();
  }

  onFailure(error: ApiError): void {
    this.#write(JSON.stringify(ollamaErrorBody(error)));
    this.#outlet.end();
  }

  /** Writes a line for each call that has none yet, until numCalls have one. */
  #tellCalls(numCalls: number): void {
    for (const call of this.#calls.slice(this.#numToldCalls, numCalls)) {
      this.#tell('', [wholeCall(this.#answer.facts, call)]);
      this.#numToldCalls++;
    }
  }

  #tell(text: string, calls: readonly Call[], thinking?: string, tokens?: readonly SentToken[]): void {
    const { facts } = this.#answer;
    const said = line(this.#answer, facts.now(), text, calls, thinking);
    const told = { ...said, ...scoresOf(facts, tokens), done: false };
    this.#write(calls.length === 0 ? JSON.stringify(told) : jsonText(told));
  }

  #write(json: string): void {
    this.#outlet.write(`${json}\n`);
  }
}
