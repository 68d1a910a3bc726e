import type { MergedSink } from '../generation/merge-streams.ts';
import { StreamingDecoder } from '../generation/text-decoder.ts';
import type { AnswerPart, SentToken } from '../generation/text-stream.ts';
import type { TokenLogprobs } from '../runner/runner.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';

/** Puts the prompt before the answer, as `echo` asks for. */

interface EchoOptions {
  readonly tokenizer: Tokenizer;
  /** The prompt's ids for each choice. */
  readonly promptIds: readonly (readonly number[])[];
  /** `max_tokens` is 0. No runner generates zero tokens: each choice has one, which is dropped here. */
  readonly isPromptOnly: boolean;
}

export function withPrompts(sink: MergedSink, options: EchoOptions): MergedSink {
  const prompts = options.promptIds.map((ids) => new EchoedPrompt(options.tokenizer, ids));
  return {
    onPart: (part, index) => {
      const kept = options.isPromptOnly ? withoutAnswer(part) : part;
      sink.onPart(prompts[index]?.putBefore(kept) ?? kept, index);
    },
    onError: (error) => sink.onError(error),
  };
}

class EchoedPrompt {
  readonly #ids: readonly number[];
  readonly #texts: readonly string[];
  readonly #numCharacters: number;
  #isSaid = false;

  constructor(tokenizer: Tokenizer, ids: readonly number[]) {
    const decoder = new StreamingDecoder(tokenizer, true);
    this.#ids = ids;
    this.#texts = ids.map((id) => decoder.decode(id));
    this.#numCharacters = this.#texts.reduce((sum, text) => sum + lengthOf(text), 0);
  }

  /** Puts the prompt before the first part, and shifts the tokens' offsets of all parts by its length. */
  putBefore(part: AnswerPart): AnswerPart {
    const sentTokens = part.sentTokens?.map((token) => {
      return { ...token, textOffset: token.textOffset + this.#numCharacters };
    });
    const moved = sentTokens === undefined ? part : { ...part, sentTokens };
    if (this.#isSaid) return moved;
    this.#isSaid = true;
    const prompt = this.#texts.join('');
    const said = { text: prompt + part.text, pieces: [{ text: prompt, index: 0 }, ...part.pieces] };
    const scored = sentTokens && [...this.#tokens(part.promptLogprobs ?? []), ...sentTokens];
    return { ...moved, ...said, ...(scored && { sentTokens: scored }) };
  }

  /**
   * The prompt's tokens, also those without text, which an answer leaves out: whoever scores a prompt counts its tokens.
   */
  #tokens(logprobs: readonly TokenLogprobs[]): SentToken[] {
    let textOffset = 0;
    return this.#ids.map((id, index) => {
      // The first token has no log-probability: nothing comes before it.
      const token = { id, textOffset, logprobs: logprobs[index - 1] };
      textOffset += lengthOf(this.#texts[index] ?? '');
      return token;
    });
  }
}

function withoutAnswer(part: AnswerPart): AnswerPart {
  const { end, sentTokens } = part;
  return {
    ...part,
    text: '',
    pieces: [],
    tokenIds: [],
    ...(sentTokens && { sentTokens: [] }),
    ...(end && { end: { ...end, reason: 'max_tokens', stopMatched: null, numTokens: 0 } }),
  };
}

/** The length in Unicode characters, the unit of offsets. */
function lengthOf(text: string): number {
  let length = 0;
  for (const _ of text) length++;
  return length;
}
