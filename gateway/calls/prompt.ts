import { ApiError, invalidField } from '../errors/api-error.ts';
import type { Model } from '../models/model.ts';
import type { ServedModel } from '../models/model-registry.ts';
import {
  type ChatMessage,
  type ChatTemplate,
  ChatTemplateError,
  PromptTooLongError,
  type RenderOptions,
} from '../prompt/chat-template.ts';
import { isEncoder, type RunnerInfo, type RunnerStatus } from '../runner/runner.ts';
import type { TokenLimits } from '../server/route-group.ts';
import { ANONYMOUS } from '../system/caller.ts';
import { numbersOf, type TooManyTokens } from '../tokenizer/tokenizer.ts';

/** The most tokens of a prompt and its answer together, and of each by itself. */
export type ContextLimit = Pick<RunnerInfo, 'maxModelLen'> & TokenLimits;

/** The limit of a request that wants at most so many tokens of the context. It cannot make the context larger. */
export function limitedTo<Limit extends ContextLimit>(limit: Limit, most: number | undefined): Limit {
  return { ...limit, maxModelLen: Math.min(limit.maxModelLen, most ?? limit.maxModelLen) };
}

/** The model and the limits of its runner. Throws a 503 that says why there are none yet. */
export function requireReady(served: Pick<ServedModel, 'model' | 'runner'>): {
  model: Model;
  info: RunnerInfo;
} {
  const { model, runner } = served;
  const { info, state } = runner.status();
  const taken = state === 'ready' || state === 'recovering';
  if (model === undefined || info === undefined || !taken) throw notReady(runner.status());
  return { model, info };
}

/** A 503 that says why no request is taken, and whether a retry can help. */
export function notReady({
  state,
  reason,
  retryAfterSec,
}: Pick<RunnerStatus, 'state' | 'reason' | 'retryAfterSec'>): ApiError {
  return new ApiError({
    status: 503,
    code: 'worker_unhealthy',
    message: reason ?? `The runner is ${state}.`,
    retriable: retryAfterSec !== undefined,
    retryAfterSec,
  });
}

/** The most tokens that an answer may have. Throws a 400 on `field` if there can be none: a prompt is never cut. */
export function tokensLeft(promptIds: readonly number[], limit: ContextLimit, field: string): number {
  const { maxTokensIn = Number.POSITIVE_INFINITY, maxTokensOut = Number.POSITIVE_INFINITY } = limit;
  const { length } = promptIds;
  if (length === 0) throw noTokens(field);
  const left = limit.maxModelLen - length;
  if (left <= 0) throw tooLong(field, `${length}`, limit);
  const most = `This server's maximum prompt length is ${maxTokensIn} tokens`;
  if (length > maxTokensIn) throw contextError(field, maxTokensIn, most, length);
  return Math.min(left, maxTokensOut);
}

/** Throws a 400 unless the ids fit into the context. It is for texts without an answer, which may fill the context. */
export function requireInContext(ids: readonly number[], { maxModelLen }: ContextLimit, field: string): void {
  if (ids.length === 0) throw noTokens(field);
  if (ids.length > maxModelLen) throw contextError(field, maxModelLen, maximum(maxModelLen), ids.length);
}

function noTokens(field: string): ApiError {
  const message = `${field} is empty for this model: it has no tokens`;
  return invalidField({ field, constraint: 'tokens(1..)', message });
}

/** The smaller of `max_tokens` and what tokensLeft() gave. Throws a 400 if `min_tokens` do not fit. */
export function maxTokensWithin(
  left: number,
  { maxModelLen, maxTokensOut }: ContextLimit,
  minTokens: number,
  maxTokens: number,
): number {
  if (minTokens <= left) return Math.min(maxTokens, left);
  const room =
    left === maxTokensOut
      ? `This server's maximum answer length is ${left} tokens`
      : `${maximum(maxModelLen)}, of which ${left} remain after the prompt`;
  const message = `${room}, but min_tokens asks for ${minTokens}`;
  const fault = { field: 'min_tokens', constraint: `range(0..=${left})`, message, value: String(minTokens) };
  throw invalidField({ code: 'context_length_exceeded', ...fault });
}

export type PromptIds = readonly number[] | TooManyTokens;

/**
 * Encodes the prompts that are text. A text that is too long by its bytes alone is not encoded, and nor are those after it;
 * requireIds() refuses it. addSpecial: as in EncodeOptions.
 */
export async function encodePrompts(
  prompts: readonly (string | readonly number[])[],
  { tokenizer }: Model,
  { maxModelLen }: ContextLimit,
  {
    signal,
    caller = ANONYMOUS,
    addSpecial = true,
  }: Pick<RenderOptions, 'signal' | 'caller'> & { readonly addSpecial?: boolean } = {},
): Promise<readonly PromptIds[]> {
  const texts = prompts.filter((prompt) => typeof prompt === 'string');
  const options = { addSpecial, parseSpecial: false, maxTokens: maxModelLen, caller };
  const encoded = (await tokenizer.encodeTexts(texts, options, signal)).values();
  const ids: PromptIds[] = [];
  for (const prompt of prompts) {
    const next = typeof prompt === 'string' ? encoded.next().value : prompt;
    if (next === undefined) break;
    ids.push(next instanceof Uint32Array ? await numbersOf(next) : next);
  }
  return ids;
}

/** The ids of a prompt. Throws a 400 if it is too long to be encoded. */
export function requireIds(
  encoded: PromptIds | undefined,
  limit: ContextLimit,
  field: string,
): readonly number[] {
  if (encoded === undefined)
    throw new Error(`${field} was not encoded, though no prompt before it is refused.`);
  if ('leastTokens' in encoded) throw tooLong(field, `at least ${encoded.leastTokens}`, limit);
  return encoded;
}

/** The ids of one text. Throws a 400 if it is too long to be encoded. */
export async function encodePrompt(
  text: string,
  model: Model,
  limit: ContextLimit,
  field: string,
): Promise<readonly number[]> {
  const [encoded] = await encodePrompts([text], model, limit);
  return requireIds(encoded, limit, field);
}

/** numTokens: "at least" so many if they were not counted, because there are too many in any case. */
function tooLong(field: string, numTokens: string, { maxModelLen }: ContextLimit): ApiError {
  const most = `${maximum(maxModelLen)}, of which an answer needs at least one`;
  return contextError(field, maxModelLen, most, numTokens);
}

function contextError(field: string, max: number, most: string, numTokens: number | string): ApiError {
  const message = `${most}, but ${field} takes ${numTokens}; send less (context_length_exceeded)`;
  return invalidField({ code: 'context_length_exceeded', field, constraint: `context(${max})`, message });
}

/**
 * LangChain, LiteLLM and similar clients recognize a full context by these words of OpenAI's, or by the code's name in the
 * message, not by the code itself.
 */
function maximum(maxModelLen: number): string {
  return `This model's maximum context length is ${maxModelLen} tokens`;
}

/** Which tokens an answer may have and which end it. The fields have these names in all APIs that have them. */
export interface TokenConstraints {
  readonly min_tokens: number;
  readonly stop_token_ids: readonly number[];
  /** Empty: all tokens. */
  readonly allowed_token_ids: readonly number[];
  readonly banned_token_ids: readonly number[];
}

/** Throws a 400 unless all ids are in the vocabulary. fieldOf: names the field of an id by its index. */
export function requireKnownIds(
  ids: readonly number[],
  vocabSize: number,
  fieldOf: (index: number) => string,
): void {
  const index = ids.findIndex((id) => id >= vocabSize);
  if (index < 0) return;
  const field = fieldOf(index);
  const message = `${field} is token ${ids[index]}, but the vocabulary ends at ${vocabSize - 1}`;
  throw invalidField({ field, constraint: `range(0..${vocabSize})`, message, value: String(ids[index]) });
}

export function requireKnownBiases(biases: ReadonlyMap<number, number>, vocabSize: number): void {
  const ids = [...biases.keys()];
  requireKnownIds(ids, vocabSize, (index) => `logit_bias.${ids[index]}`);
}

/**
 * The ids that end an answer. Throws a 400 unless the model has each token that the request names, and at least one token
 * can be drawn.
 */
export function stopIdsOf(
  request: TokenConstraints,
  model: Pick<Model, 'stopIds'>,
  vocabSize: number,
): number[] {
  for (const field of ['stop_token_ids', 'allowed_token_ids', 'banned_token_ids'] as const)
    requireKnownIds(request[field], vocabSize, (index) => `${field}.${index}`);
  const stopIds = [...new Set([...model.stopIds, ...request.stop_token_ids])];
  requireDrawable(request, stopIds, vocabSize);
  return stopIds;
}

function requireDrawable(request: TokenConstraints, stopIds: readonly number[], vocabSize: number): void {
  const { min_tokens, allowed_token_ids, banned_token_ids } = request;
  const masked = new Set([...banned_token_ids, ...(min_tokens > 0 ? stopIds : [])]);
  const isLimited = allowed_token_ids.length > 0;
  const isDrawable = isLimited ? !allowed_token_ids.every((id) => masked.has(id)) : masked.size < vocabSize;
  if (isDrawable) return;
  const field = isLimited ? 'allowed_token_ids' : 'banned_token_ids';
  const message = `${field} leaves no token that can be generated: each one is banned, or is a stop token and min_tokens is above 0`;
  throw invalidField({ field, constraint: 'drawable', message });
}

/**
 * Renders a conversation to the ids of its prompt. Throws a 400 on `field` if the model has no template or the template
 * refuses the messages, and UnavailableError if nothing can be rendered now.
 */
export async function renderChat(
  model: Model,
  limit: ContextLimit,
  messages: readonly ChatMessage[],
  options: RenderOptions,
  field: string,
): Promise<number[]> {
  return rendering(model, limit, field, (template) => {
    return template.render(messages, limit.maxModelLen, options);
  });
}

/** Renders the same prompt as text, however long it is. */
export async function renderChatText(
  model: Model,
  messages: readonly ChatMessage[],
  options: RenderOptions,
): Promise<string> {
  const limit = { maxModelLen: Number.POSITIVE_INFINITY };
  return rendering(model, limit, 'messages', (template) => template.renderText(messages, options));
}

/** Throws a 400 if the model has no chat template. */
export function templateOf({
  id,
  architecture,
  chatTemplate,
}: Pick<Model, 'id' | 'architecture' | 'chatTemplate'>): ChatTemplate {
  if (chatTemplate !== undefined) return chatTemplate;
  const message = isEncoder(architecture)
    ? `The model "${id}" is an encoder, which makes vectors of texts (POST /v1/embeddings) and writes none; use another model.`
    : `The model "${id}" has no chat template; use POST /v1/completions or /execute, which take a plain prompt.`;
  throw new ApiError({ status: 400, code: 'no_chat_template', message, param: 'model' });
}

async function rendering<Prompt>(
  model: Model,
  limit: ContextLimit,
  field: string,
  render: (template: ChatTemplate) => Promise<Prompt>,
): Promise<Prompt> {
  const template = templateOf(model);
  try {
    return await render(template);
  } catch (error) {
    if (error instanceof PromptTooLongError) throw tooLong(field, `at least ${error.leastTokens}`, limit);
    if (!(error instanceof ChatTemplateError)) throw error;
    const message = `The model's chat template refuses these messages: ${error.message}`;
    throw new ApiError({ status: 400, code: 'chat_template_error', message, param: field, cause: error });
  }
}
