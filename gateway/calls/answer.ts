import type { Context } from 'hono';
import { type AbortableText, type MergedSink, mergeStreams } from '../generation/merge-streams.ts';
import type { ReceiptTerms } from '../generation/receipt.ts';
import { PartialAnswers } from '../generation/text-stream.ts';
import { readAs } from '../generation/thinking-families.ts';
import type { Thinking } from '../generation/thinking-parser.ts';
import type { Job } from '../jobs/job.ts';
import type { StoredAnswer } from '../jobs/stored-answer.ts';
import type { Model } from '../models/model.ts';
import { memoryOf } from '../models/model-registry.ts';
import type { RenderOptions } from '../prompt/chat-template.ts';
import { type GenerateRequest, neutralSampling } from '../runner/runner.ts';
import { callersOf, senderOf, sharerOf } from '../server/guard/caller.ts';
import { failureLog, tellIgnored, type UsedTokens } from '../server/request-log.ts';
import type { RouteDeps } from '../server/route-group.ts';
import type { Call, Facts, ParsedCall } from './call.ts';
import { withPrompts } from './echo.ts';
import { idempotencyOf } from './idempotency.ts';
import { encodeWithGap, infillEnds } from './infill.ts';
import {
  answerTwin,
  answerWhole,
  beginKept,
  JOB_HEADER,
  requireJournal,
  sinkOf,
  storedAnswer,
  streamOf,
} from './kept-answer.ts';
import {
  type ContextLimit,
  encodePrompts,
  limitedTo,
  maxTokensWithin,
  requireIds,
  requireKnownBiases,
  requireKnownIds,
  stopIdsOf,
  type TokenConstraints,
  tokensLeft,
} from './prompt.ts';
import { termsOf, withReceipts } from './receipts.ts';
import {
  ignoredHints,
  renderThinking,
  requireNothing,
  type ThinkingPrompt,
  withThinkingConstraints,
} from './thinking.ts';
import { answerStructure, offerTools, type ToolOffer, tellGenericTools } from './tool-offer.ts';
import { type ModelParams, readModel, type UsableModel, useModel } from './use-model.ts';

/** The way of every call: its model, its prompts, what constrains its answers, the requests to the runner, and the answer. */

const UNCONSTRAINED: TokenConstraints = {
  min_tokens: 0,
  stop_token_ids: [],
  allowed_token_ids: [],
  banned_token_ids: [],
};

const NUM_SEEDS = 2n ** 64n;

/** A call that can be sent to a runner. */
interface PreparedCall {
  /** The requests, in the order of the choices: those to the first prompt come first. */
  readonly requests: readonly GenerateRequest[];
  readonly numPromptTokens: number;
  readonly thinking: Thinking | undefined;
  readonly offer: ToolOffer | undefined;
  readonly receipt: ReceiptTerms | undefined;
}

/** Answers a call, whole or as a stream. body: what the call was made of. sent: the body as its client wrote it, if that differs. */
export async function answer(
  c: Context,
  deps: RouteDeps,
  parsed: Omit<ParsedCall, 'ignored'>,
  body: unknown,
  sent = body,
): Promise<Response> {
  const { call, encoding } = parsed;
  const beginMs = deps.monotonicNow();
  const { durable } = call;
  if (durable) requireJournal(deps.jobs, durable);
  else if (call.stored === 'required') requireJournal(deps.jobs, 'store');
  const idempotency = idempotencyOf(c, sent, durable);
  const twin = idempotency && (await deps.jobs.openTwin(idempotency.key));
  if (twin !== undefined) return answerTwin(c, deps, parsed, twin, idempotency);
  const uuid = deps.ids.uuid();
  const id = call.jobId ?? (durable && (encoding.jobId?.(uuid) ?? uuid));
  const job = id === undefined ? undefined : deps.jobs.accept(callersOf(c), id, durable && { idempotency });
  if (durable) c.header(JOB_HEADER, id);
  else job?.wait();
  const requestId = c.get('requestId') as string | undefined;
  const { failureEvent } = encoding;
  const wanted: ModelParams = {
    name: call.model,
    deadlineMs: call.deadlineMs,
    maxWaitMs: durable && deps.jobs.keepMs,
    signal: job?.signal,
    onFailed: () => {
      if (job !== undefined && deps.jobs.drop(job)) c.header(JOB_HEADER, undefined);
    },
    failureEvent: call.isStreamed && failureEvent ? (error) => failureEvent(error, requestId) : undefined,
  };
  return useModel(c, deps, wanted, async (usable) => {
    const modelInMs = deps.monotonicNow() - beginMs;
    tellIgnored(c, deps.log, ignoredHints(usable.model, call.thinking));
    if (call.tools) tellGenericTools(c, usable.model);
    const { signal: present } = c.req.raw;
    const signal = job === undefined ? present : AbortSignal.any([present, job.signal]);
    const sender = { signal, ...senderOf(c) };
    const prepared = await prepare(call, usable, sender, () => deps.ids.seed(), deps.hasReceipts);
    deps.jobs.refuseQuarantined(prepared.requests);
    const used = c.get('used');
    used.tokens_in = prepared.numPromptTokens;
    const operation = 'messages' in call.input ? 'chat' : 'text_completion';
    c.get('span')?.setAttribute('gen_ai.operation.name', operation);
    const kept = { ...parsed, body, uuid, requestId };
    if (job?.isDurable) return beginKept(c, deps, job, kept, usable, prepared);
    const stored = storedAnswer(c, deps, kept, usable, prepared);
    const ids = { uuid, requestId, modelInMs, numChoicesPerPrompt: call.numChoices ?? 1 };
    const facts = factsOf(deps, usable, prepared, ids, beginMs, stored);
    try {
      job?.run();
      if (call.isStreamed) return answerStream(c, deps, parsed, job, stored, usable, prepared, facts);
      return await answerWhole(c, encoding, facts, (sink) =>
        generate(call, prepared, usable, stored, countingSink(sink, used, facts)),
      );
    } catch (error) {
      stored?.drop();
      throw error;
    }
  });
}

/**
 * Begins the stream. It may last long, and its functions keep the variables of the function that made them: that is why this is
 * one of its own, and why none of them uses the call or the context.
 */
function answerStream(
  c: Context,
  deps: RouteDeps,
  { call, encoding, log }: Omit<ParsedCall, 'ignored'>,
  job: Job | undefined,
  stored: StoredAnswer | undefined,
  usable: UsableModel,
  prepared: PreparedCall,
  facts: Facts,
): Response {
  const stream = streamOf(c, encoding);
  const sink = sinkOf(encoding.stream(facts, stream), log ?? { failed: failureLog(deps.log, c) });
  const text = generate(call, prepared, usable, stored, countingSink(sink, c.get('used'), facts));
  const [first] = prepared.requests;
  if (first !== undefined) log?.begun(first);
  job?.signal.addEventListener('abort', () => text.abort(job.signal.reason));
  return stream.respond(text, () => {
    if (job !== undefined) deps.jobs.drop(job);
    stored?.drop();
    log?.over();
  });
}

/** The functions of the facts keep nothing of the call, as in answerStream(). */
function factsOf(
  deps: RouteDeps,
  { model, info, runner }: UsableModel,
  { requests, numPromptTokens, thinking, offer }: PreparedCall,
  known: Pick<Facts, 'uuid' | 'requestId' | 'modelInMs' | 'numChoicesPerPrompt'>,
  beginMs: number,
  stored: StoredAnswer | undefined,
): Facts {
  const begunMs = deps.monotonicNow();
  return {
    ...known,
    createdMs: stored?.createdMs ?? deps.now(),
    preparedInMs: begunMs - beginMs,
    now: () => stored?.endedMs ?? deps.now(),
    elapsedMs: () => deps.monotonicNow() - begunMs,
    vramBytes: () => memoryOf(runner.status().info).vram_bytes,
    modelId: model.id,
    seed: requests[0]?.sampling.seed ?? 0n,
    numericsId: info.numericsId,
    tokenizer: model.tokenizer,
    numPromptTokens,
    numChoices: requests.length,
    maxTokensOut: info.maxTokensOut ?? Number.POSITIVE_INFINITY,
    isKept: () => stored?.isKept ?? false,
    beginsWithText: offer?.calls === undefined && thinking === undefined,
  };
}

/** The tokens of a call's prompt. Needs only the model's files, so it works while no runner is up, and for any length. */
export async function countTokens(c: Context, deps: RouteDeps, call: Call): Promise<number> {
  const model = await readModel(call.model, deps);
  const offer = call.tools && offerTools(call.tools, model);
  tellIgnored(c, deps.log, ignoredHints(model, call.thinking));
  if (call.tools) tellGenericTools(c, model);
  const limit = { maxModelLen: Number.POSITIVE_INFINITY };
  const prompts = await promptsOf(call, model, limit, offer, {
    signal: c.req.raw.signal,
    caller: sharerOf(c),
  });
  return prompts.reduce((sum, { promptIds }) => sum + promptIds.length, 0);
}

/** What a sender decides of a request to a runner, and by which signal nobody wants it any more. */
export interface Sender extends Pick<GenerateRequest, 'cacheSalt' | 'caller' | 'trace'> {
  readonly signal?: AbortSignal;
}

/**
 * Makes the requests of a call. seedOf: makes the seed if the call has none. Throws a 400 if the model or its runner cannot do what the
 * call asks.
 */
export async function prepare(
  call: Call,
  { model, info, api }: Pick<UsableModel, 'model' | 'info' | 'api'>,
  { signal, ...sender }: Sender,
  seedOf: () => bigint,
  hasReceipts = false,
): Promise<PreparedCall> {
  const { tools, format, tokens = UNCONSTRAINED, report = {}, input } = call;
  const { topLogprobs, isEchoed = false } = report;
  const limit = limitedTo(info, call.maxContext);
  if (call.sampling.logitBias !== undefined) requireKnownBiases(call.sampling.logitBias, info.vocabSize);
  const gapEnds = 'prompts' in input && input.suffix ? infillEnds(model.tokenizer) : [];
  const stopIds = stopIdsOf(tokens, { stopIds: [...model.stopIds, ...gapEnds] }, info.vocabSize);
  const offer = tools && offerTools(tools, model, format?.grammar);
  const structure = await answerStructure(format, offer, model, stopIds);
  const prompts = await promptsOf(call, model, limit, offer, { signal, caller: sender.caller });
  const seed = call.seed ?? seedOf();
  const sampling = {
    ...neutralSampling,
    ...call.sampling,
    allowedTokenIds: tokens.allowed_token_ids,
    bannedTokenIds: tokens.banned_token_ids,
  };
  const requests = prompts.flatMap((prompt, index) => {
    const { promptIds } = prompt;
    const left = tokensLeft(promptIds, limit, fieldOf(input, index));
    const maxTokens = maxTokensWithin(left, limit, tokens.min_tokens, call.maxTokens ?? left);
    const request = {
      promptIds,
      modelIdentity: info.modelIdentity,
      // No runner generates zero tokens. A call for its prompt alone gets one, which echo.ts drops.
      maxTokens: Math.max(1, maxTokens),
      minTokens: tokens.min_tokens,
      stopIds,
      ...sender,
      api,
      ...(call.priority ? { priority: call.priority } : {}),
      ...(call.deadlineMs === undefined ? {} : { deadlineMs: call.deadlineMs }),
      ...withThinkingConstraints(structure, prompt, call.thinking, model, format?.grammar),
      ...(topLogprobs === undefined ? {} : { topLogprobs }),
      ...(topLogprobs === undefined || !isEchoed ? {} : { promptLogprobs: topLogprobs }),
    };
    return Array.from({ length: call.numChoices ?? 1 }, (_, choice) => {
      return { ...request, sampling: { ...sampling, seed: (seed + BigInt(choice)) % NUM_SEEDS } };
    });
  });
  const numPromptTokens = prompts.reduce((sum, { promptIds }) => sum + promptIds.length, 0);
  const reading = { isInText: report.thinkingInText ?? false, readsCalls: offer?.calls !== undefined };
  const thinking = readAs(prompts[0]?.thinking, reading);
  // An answer without tokens has none.
  const form = call.receipt ?? (hasReceipts && call.maxTokens !== 0 ? 'hashes' : undefined);
  return { requests, numPromptTokens, thinking, offer, receipt: form && termsOf(form, info) };
}

/** Renders or encodes the prompts. Throws a 400 for the first one that is not valid. */
async function promptsOf(
  { input, thinking }: Call,
  model: Model,
  limit: ContextLimit,
  offer: ToolOffer | undefined,
  asker: Pick<RenderOptions, 'signal' | 'caller'>,
): Promise<ThinkingPrompt[]> {
  const { field } = input;
  const plain = 'prompts' in input ? input.prompts : withoutTemplate(input.withoutTemplate, model);
  if ('messages' in input && plain === undefined) {
    const options = { ...input.template, tools: offer?.definitions, ...asker };
    return [await renderThinking(model, limit, input.messages, options, thinking, field)];
  }
  requireNothing(model, thinking);
  const prompts = plain ?? [];
  const suffix = 'prompts' in input ? input.suffix : undefined;
  const encoded = suffix
    ? await encodeWithGap(prompts, suffix, model, limit, asker)
    : await encodePrompts(prompts, model, limit, asker);
  return prompts.map((prompt, index) => {
    const name = fieldOf({ field, prompts }, index);
    if (typeof prompt !== 'string')
      requireKnownIds(prompt, model.tokenizer.vocabSize, (at) => `${name}.${at}`);
    const promptIds = requireIds(encoded[index], limit, name);
    tokensLeft(promptIds, limit, name);
    return { promptIds };
  });
}

function withoutTemplate(prompt: string | undefined, { chatTemplate }: Model): string[] | undefined {
  return prompt === undefined || chatTemplate !== undefined ? undefined : [prompt];
}

function fieldOf(input: Call['input'], index: number): string {
  return 'prompts' in input && input.prompts.length > 1 ? `${input.field}.${index}` : input.field;
}

/** Sends the requests to the runner. */
function generate(
  { stop, tokens = UNCONSTRAINED, report = {}, maxTokens, failsAtTimeLimit = false }: Call,
  { requests, thinking, offer, receipt }: PreparedCall,
  { model, info, runner }: UsableModel,
  stored: StoredAnswer | undefined,
  sink: MergedSink,
): AbortableText {
  const { tokenizer } = model;
  const options = {
    tokenizer,
    stop,
    minTokens: tokens.min_tokens,
    thinking,
    toolCalls: offer?.calls,
    timings: report.timings,
    partial: failsAtTimeLimit ? undefined : new PartialAnswers(),
  };
  const promptIds = requests.map((each) => each.promptIds);
  const heard = report.isEchoed
    ? withPrompts(sink, { tokenizer, promptIds, isPromptOnly: maxTokens === 0 })
    : sink;
  const { numericsId } = info;
  const receipted = withReceipts(heard, receipt, { model, numericsId, requests, search: options });
  if (stored === undefined) return mergeStreams(runner, requests, options, receipted);
  return mergeStreams(stored.noting(runner), requests, options, stored.keptBefore(receipted));
}

/** Counts the tokens of the answers, for the log. */
function countingSink(sink: MergedSink, used: UsedTokens, { numChoicesPerPrompt }: Facts): MergedSink {
  return {
    onPart: (part, index) => {
      used.tokens_out = (used.tokens_out ?? 0) + part.tokenIds.length;
      // The later choices of a prompt find in the cache what the first one computed.
      if (part.end !== undefined && index % numChoicesPerPrompt === 0)
        used.tokens_cached = (used.tokens_cached ?? 0) + part.end.numCachedTokens;
      sink.onPart(part, index);
    },
    onError: (thrown) => sink.onError(thrown),
  };
}
