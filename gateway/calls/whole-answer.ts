import type { MergedSink, OpenText } from '../generation/merge-streams.ts';
import type { AnswerEnd, AnswerPart, AnswerText, SentToken } from '../generation/text-stream.ts';
import { appendCalls, type CallPiece } from '../generation/tool-call-parser.ts';
import { cancelled } from '../runner/runner.ts';

/** Answers that are sent when they are complete. */

/** A text that grows piece by piece. */
export class GrowingText implements AnswerText {
  text = '';
  thought: string | undefined;
  readonly calls: CallPiece[] = [];
  sentTokens: SentToken[] | undefined;

  append({ text, thought, calls = [], sentTokens }: AnswerText): void {
    appendCalls(this.calls, calls, this.text.length);
    this.text += text;
    if (thought !== undefined) this.thought = (this.thought ?? '') + thought;
    if (sentTokens === undefined) return;
    this.sentTokens ??= [];
    for (const token of sentTokens) this.sentTokens.push(token);
  }
}

/** A whole choice. Its calls are each in one piece; those from index `end.numCalls` on are incomplete. */
export interface FinishedChoice extends AnswerText {
  readonly calls: readonly CallPiece[];
  readonly end: AnswerEnd;
}

/** Gathers an answer. The promise rejects with the error that ended the generation. */
interface Gathering<Whole> {
  readonly answer: Promise<Whole>;
  onError(error: unknown): void;
}

/** Gathers all choices of an answer. */
export class WholeAnswer implements MergedSink, Gathering<readonly FinishedChoice[]> {
  readonly answer: Promise<readonly FinishedChoice[]>;
  readonly #texts: readonly GrowingText[];
  readonly #ends = new Map<number, AnswerEnd>();
  #resolve: (choices: readonly FinishedChoice[]) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(numChoices: number) {
    this.#texts = Array.from({ length: numChoices }, () => new GrowingText());
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  onPart(part: AnswerPart, index: number): void {
    this.#texts[index]?.append(part);
    if (part.end === undefined) return;
    this.#ends.set(index, part.end);
    if (this.#ends.size < this.#texts.length) return;
    this.#resolve(this.#texts.map((text, choice) => ({ ...text, end: this.#ends.get(choice) as AnswerEnd })));
  }

  onError(error: unknown): void {
    this.#reject(error);
  }
}

/** The whole answer. Cancels the text and throws CANCELLED when the client leaves. */
export async function whileWanted<Whole>(
  signal: AbortSignal,
  text: Pick<OpenText, 'cancel'>,
  whole: Gathering<Whole>,
): Promise<Whole> {
  const leave = (): void => {
    text.cancel();
    whole.onError(cancelled());
  };
  if (signal.aborted) leave();
  signal.addEventListener('abort', leave, { once: true });
  try {
    return await whole.answer;
  } finally {
    signal.removeEventListener('abort', leave);
  }
}
