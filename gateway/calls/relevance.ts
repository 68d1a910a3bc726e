import type { Context } from 'hono';
import { shown, unsupported } from '../errors/api-error.ts';
import { embeddingRequest } from '../generation/embeddings.ts';
import { Readings } from '../generation/readings.ts';
import type { Model } from '../models/model.ts';
import type { GenerateRequest, TokenBatch } from '../runner/runner.ts';
import { senderOf, sharerOf } from '../server/guard/caller.ts';
import type { RouteDeps } from '../server/route-group.ts';
import { prepare } from './answer.ts';
import { encodePrompts, requireIds, requireInContext } from './prompt.ts';
import type { UsableModel } from './use-model.ts';
import { whileWanted } from './whole-answer.ts';

/**
 * How relevant documents are to queries. A reranker with a classification head, a cross-encoder, reads query and document as a
 * pair, and the score is the sigmoid of the head's logit. Any other model is asked whether a document is what the query wants,
 * and the score is p(yes) / (p(yes) + p(no)) of its first token. The words of the question are those that Qwen3-Reranker was
 * trained with; every model that chats can answer it.
 */

const TASK =
  'Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".';
const INSTRUCTION = 'Given a web search query, retrieve relevant passages that answer the query';
const ANSWERS = ['yes', 'no'] as const;

export interface Pair {
  readonly query: string;
  readonly document: string;
  /** The field that refusals name. */
  readonly field: string;
}

interface Asked {
  /** What makes a document relevant. */
  readonly instruction?: string | undefined;
  /** As in a Call. */
  readonly priority: number;
}

export interface Relevance {
  /** Of each pair: from 0 to 1. */
  readonly scores: readonly number[];
  /** Tokens of all prompts, each counted once. */
  readonly numTokens: number;
}

/**
 * Throws a 400 for the first pair that does not fit into the context, and for a model that cannot answer, and CANCELLED when the
 * client has left.
 */
export async function relevanceOf(
  c: Context,
  { jobs }: Pick<RouteDeps, 'jobs'>,
  usable: UsableModel,
  pairs: readonly Pair[],
  asked: Asked,
): Promise<Relevance> {
  if (usable.info.scoresPairs) return relevanceByHead(c, jobs, usable, pairs, asked);
  const { signal } = c.req.raw;
  const sender = { signal, ...senderOf(c) };
  const asking: GenerateRequest[] = [];
  for (const pair of pairs)
    asking.push(...(await prepare(callOf(pair, asked), usable, sender, () => 0n)).requests);
  const answerIds = answerIdsOf(usable.model);
  // A token's log-probability comes with it when it is drawn, so each answer is drawn by a request of its own. The second one finds
  // the prompt in the KV cache.
  const requests = asking.flatMap((request) =>
    answerIds.map((id) => ({ ...request, sampling: { ...request.sampling, allowedTokenIds: [id] } })),
  );
  const numTokens = asking.reduce((sum, { promptIds }) => sum + promptIds.length, 0);
  const logprobs = await readingsOf(c, jobs, usable, requests, numTokens, logprobOf);
  const scores = pairs.map((_, index) => scoreOf(logprobs.slice(2 * index) as [number, number]));
  return { scores, numTokens };
}

/** As relevanceOf(), with a model that has a classification head. */
async function relevanceByHead(
  c: Context,
  jobs: RouteDeps['jobs'],
  usable: UsableModel,
  pairs: readonly Pair[],
  { instruction, priority }: Asked,
): Promise<Relevance> {
  const { model, info, api } = usable;
  const { pair: template } = model.tokenizer;
  if (instruction !== undefined)
    throw unsupported(
      'instruction',
      `The model "${shown(model.id)}" ranks documents by a classification head, which reads no instruction.`,
    );
  if (template === undefined)
    throw unsupported(
      'model',
      `The tokenizer of the model "${shown(model.id)}" does not say how a pair of texts is encoded; use another model.`,
    );
  const { prefixIds, betweenIds, suffixIds, hasTypes } = template;
  const texts = [...new Set(pairs.flatMap(({ query, document }) => [query, document]))];
  const asker = { signal: c.req.raw.signal, caller: sharerOf(c), addSpecial: false };
  const encoded = await encodePrompts(texts, model, info, asker);
  const idsOf = new Map(texts.map((text, index) => [text, encoded[index]]));
  const { modelIdentity } = info;
  const sender = senderOf(c);
  const requests = pairs.map(({ query, document, field }) => {
    const first = [...prefixIds, ...requireIds(idsOf.get(query), info, field), ...betweenIds];
    const promptIds = [...first, ...requireIds(idsOf.get(document), info, field), ...suffixIds];
    requireInContext(promptIds, info, field);
    const types = hasTypes ? { secondTypeFrom: first.length } : {};
    return embeddingRequest({
      promptIds,
      modelIdentity,
      ...sender,
      api,
      pooling: 'rank',
      priority,
      ...types,
    });
  });
  const numTokens = requests.reduce((sum, { promptIds }) => sum + promptIds.length, 0);
  const logits = await readingsOf(c, jobs, usable, requests, numTokens, ({ embedding }) => embedding?.[0]);
  return { scores: logits.map((logit) => 1 / (1 + Math.exp(-logit))), numTokens };
}

/** Sends the requests to the runner, counts them, and waits for what is read of each. */
async function readingsOf(
  c: Context,
  jobs: RouteDeps['jobs'],
  { runner }: UsableModel,
  requests: readonly GenerateRequest[],
  numTokens: number,
  readingOf: (batch: TokenBatch) => number | undefined,
): Promise<readonly number[]> {
  jobs.refuseQuarantined(requests);
  const used = c.get('used');
  used.tokens_in = numTokens;
  c.get('span')?.setAttribute('gen_ai.operation.name', 'rerank');
  const readings = new Readings(runner, requests, readingOf);
  const found = await whileWanted(c.req.raw.signal, readings, readings);
  used.tokens_cached = readings.numCachedTokens;
  return found;
}

function callOf({ query, document, field }: Pair, { instruction = INSTRUCTION, priority }: Asked) {
  const content = `<Instruct>: ${instruction}\n<Query>: ${query}\n<Document>: ${document}`;
  const messages = [
    { role: 'system', content: TASK },
    { role: 'user', content },
  ] as const;
  return {
    isStreamed: false,
    input: { field, messages },
    thinking: { isOn: false },
    sampling: {},
    maxTokens: 1,
    stop: [],
    report: { topLogprobs: 0 },
    priority,
  };
}

/** The ids of the answers. Throws a 400 if the model does not have a token for each. */
function answerIdsOf({ id, tokenizer }: Model): number[] {
  return ANSWERS.map((answer) => {
    const [first, ...others] = tokenizer.encode(answer, { addSpecial: false, parseSpecial: false });
    if (first !== undefined && others.length === 0) return first;
    const message = `The model "${shown(id)}" has no token for the answer "${answer}", by which documents are ranked; use another model.`;
    throw unsupported('model', message);
  });
}

function logprobOf({ logprobs }: TokenBatch): number | undefined {
  return logprobs?.[0]?.logprob;
}

/** The softmax of the two. */
function scoreOf([yes, no]: readonly [number, number]): number {
  return 1 / (1 + Math.exp(no - yes));
}
