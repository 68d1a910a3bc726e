import type { MergedSink, OpenText } from '../generation/merge-streams.ts';
import type { AnswerEnd, AnswerPart, SentToken } from '../generation/text-stream.ts';
import { appendCalls, type CallPiece } from '../generation/tool-call-parser.ts';
import { cancelled } from '../runner/runner.ts';

/** Answers that are sent when they are complete. */

/** The text of a choice or a piece of it, with its tokens if log-probabilities were asked for. */
export interface ChoiceText {
  readonly text: string;
  /** The thinking before the text; undefined if there is none. */
  readonly thought?: string | undefined;
  readonly tokens: readonly SentToken[] | undefined;
  /** Calls of tools in the text: one piece of each, or whole calls. */
  readonly calls: readonly CallPiece[];
}

export function choiceText({ thought, pieces, sentTokens, calls = [] }: AnswerPart): ChoiceText {
  return { text: textOf(pieces), thought, tokens: sentTokens, calls };
}

/** A text that grows piece by piece. */
export class GrowingText implements ChoiceText {
  text = '';
  thought: string | undefined;
  readonly calls: CallPiece[] = [];
  tokens: SentToken[] | undefined;

  append(piece: ChoiceText): void {
    appendCalls(this.calls, piece.calls, this.text.length);
    this.text += piece.text;
    if (piece.thought !== undefined) this.thought = (this.thought ?? '') + piece.thought;
    if (piece.tokens === undefined) return;
    this.tokens ??= [];
    for (const token of piece.tokens) this.tokens.push(token);
  }
}

/** A whole choice. Its calls are each in one piece; those from index `end.numCalls` on are incomplete. */
export interface FinishedChoice extends ChoiceText {
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
    this.#texts[index]?.append(choiceText(part));
    if (part.end === undefined) return;
    this.#ends.set(index, part.end);
    if (this.#ends.size < this.#texts.length) return;
    this.#resolve(
      this.#texts.map(({ text, thought, tokens, calls }, choice) => {
        const end = this.#ends.get(choice) as AnswerEnd;
        return { text, thought, tokens, calls, end };
      }),
    );
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

export function textOf(pieces: AnswerPart['pieces']): string {
  if (pieces.length === 1) return pieces[0]?.text ?? '';
  let text = '';
  for (const piece of pieces) text += piece.text;
  return text;
}
