import { encodePrompt, tokensLeft } from '../calls/prompt.ts';
import { UsageError } from '../errors/exit-code.ts';
import { type AnswerPart, type EndReason, TextStream } from '../generation/text-stream.ts';
import type { Model } from '../models/model.ts';
import type { GenerateRequest, Runner, RunnerInfo, SamplingParams } from '../runner/runner.ts';

/** Answers prompts without HTTP, in the same way as requests. */

/** A text, or the ids of a text. */
export type Prompt = string | readonly number[];

interface PromptAnswer {
  readonly text: string;
  readonly token_ids: readonly number[];
  readonly finish: EndReason;
}

export interface AnswerSettings {
  readonly maxTokens: number;
  /** If the context leaves room for fewer tokens, the answer has fewer. */
  readonly minTokens: number;
  readonly ignoreEos: boolean;
  readonly stop: readonly string[];
  /** The sampling of the first prompt. Each next prompt has the next seed, so that equal prompts may get different answers. */
  readonly sampling: SamplingParams;
  /** The most prompts that the runner has at once. */
  readonly maxOpen: number;
  /** The most prompt tokens of these together. A single prompt may have more. */
  readonly maxOpenTokens: number;
}

const U64 = 2n ** 64n;

/**
 * Yields the answers in the order of the prompts. Throws ApiError or UsageError for a prompt that does not fit, before any
 * prompt is sent, and GenerationError for a prompt that fails, which ends the others too.
 */
export async function* answerPrompts(
  runner: Runner,
  { model, info }: { readonly model: Model; readonly info: RunnerInfo },
  prompts: readonly Prompt[],
  settings: AnswerSettings,
): AsyncGenerator<PromptAnswer> {
  const requests: GenerateRequest[] = [];
  for (const [index, prompt] of prompts.entries()) {
    const promptIds =
      typeof prompt === 'string'
        ? await encodePrompt(prompt, model, info, `prompt ${index + 1}`)
        : known(model, prompt, index);
    const seed = (settings.sampling.seed + BigInt(index)) % U64;
    const maxTokens = Math.min(settings.maxTokens, tokensLeft(promptIds, info, `prompt ${index + 1}`));
    requests.push({
      promptIds,
      modelIdentity: info.modelIdentity,
      maxTokens,
      minTokens: Math.min(settings.minTokens, maxTokens),
      stopIds: settings.ignoreEos ? [] : model.stopIds,
      sampling: { ...settings.sampling, seed },
      cacheSalt: new Uint8Array(),
    });
  }
  const begun: TextStream[] = [];
  const open: { readonly answer: Promise<PromptAnswer>; readonly numTokens: number }[] = [];
  let numOpenTokens = 0;
  const hasRoom = (numTokens: number): boolean =>
    open.length < settings.maxOpen && numOpenTokens + numTokens <= settings.maxOpenTokens;
  try {
    for (const request of requests) {
      const numTokens = request.promptIds.length;
      for (let first = open[0]; first !== undefined && !hasRoom(numTokens); first = open[0]) {
        yield await first.answer;
        open.shift();
        numOpenTokens -= first.numTokens;
      }
      const answer = answerOne(runner, model, request, settings.stop, (text) => begun.push(text));
      // The failure is reported where the answer is awaited. Until then it must not end the process.
      answer.catch(() => {});
      open.push({ answer, numTokens });
      numOpenTokens += numTokens;
    }
    for (const { answer } of open) yield await answer;
  } finally {
    for (const text of begun) text.cancel();
  }
}

function known({ tokenizer }: Model, ids: readonly number[], index: number): readonly number[] {
  const outside = ids.find((id) => id >= tokenizer.vocabSize);
  if (outside === undefined) return ids;
  throw new UsageError(
    `prompt ${index + 1} has the token id ${outside}, but the largest id is ${tokenizer.vocabSize - 1}.`,
  );
}

function answerOne(
  runner: Runner,
  { tokenizer }: Model,
  request: GenerateRequest,
  stop: readonly string[],
  onBegun: (text: TextStream) => void,
): Promise<PromptAnswer> {
  let text = '';
  const tokenIds: number[] = [];
  const options = { tokenizer, stop, minTokens: request.minTokens };
  return new Promise((resolve, reject) => {
    const onPart = (part: AnswerPart): void => {
      for (const piece of part.pieces) text += piece.text;
      tokenIds.push(...part.tokenIds);
      if (part.end !== undefined) resolve({ text, token_ids: tokenIds, finish: part.end.reason });
    };
    onBegun(new TextStream(runner, request, options, { onPart, onError: reject }));
  });
}
