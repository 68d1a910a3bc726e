import type { Context } from 'hono';
import { ApiError, shown, unsupported } from '../errors/api-error.ts';
import { embeddingRequest } from '../generation/embeddings.ts';
import { Readings } from '../generation/readings.ts';
import { decodeAll } from '../generation/text-decoder.ts';
import type { Model } from '../models/model.ts';
import type { GenerateRequest, TokenBatch } from '../runner/runner.ts';
import { senderOf, sharerOf } from '../server/guard/caller.ts';
import type { RouteDeps } from '../server/route-group.ts';
import { prepare, type Sender } from './answer.ts';
import { type ContextLimit, encodePrompts, limitedTo, requireIds, requireInContext } from './prompt.ts';
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

const UNLIMITED: ContextLimit = { maxModelLen: Number.POSITIVE_INFINITY, maxTokensIn: undefined };
/** How often a text is cut shorter because it does not fit yet. */
const MAX_CUTS = 8;

export interface Pair {
  readonly query: string;
  readonly document: string;
  /** The fields that refusals name. */
  readonly fields: { readonly query: string; readonly document: string };
}

/** The most tokens that a document keeps, and the most of all that is computed for it. It always keeps only what fits. */
export interface DocumentLimits {
  readonly ofDocument?: number | undefined;
  readonly ofPair?: number | undefined;
}

interface Asked {
  /** What makes a document relevant. */
  readonly instruction?: string | undefined;
  /** As in a Call. */
  readonly priority: number;
  /** Undefined: a document that does not fit is refused. Otherwise a longer one loses its end. */
  readonly limits?: DocumentLimits | undefined;
}

export interface Relevance {
  /** Of each pair: from 0 to 1. */
  readonly scores: readonly number[];
  /** Tokens of all prompts, each counted once. */
  readonly numTokens: number;
}

/**
 * Throws a 400 for the first query or document that does not fit into the context, and for a model that cannot answer, and CANCELLED
 * when the client has left.
 */
export async function relevanceOf(
  c: Context,
  { jobs }: Pick<RouteDeps, 'jobs'>,
  usable: UsableModel,
  pairs: readonly Pair[],
  asked: Asked,
): Promise<Relevance> {
  if (usable.info.scoresPairs) return relevanceByHead(c, jobs, usable, pairs, asked);
  const asking: GenerateRequest[] = [];
  const questions = new Questions(usable, { signal: c.req.raw.signal, ...senderOf(c) }, asked);
  await questions.read(pairs);
  for (const pair of pairs) asking.push(await questions.about(pair));
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

/** The question about each pair, as a request for its first token. */
class Questions {
  readonly #usable: UsableModel;
  readonly #sender: Sender;
  readonly #asked: Asked;
  readonly #limit: ContextLimit;
  /** The ids of each document that may lose its end. */
  #idsOf: ReadonlyMap<string, readonly number[]> = new Map();
  /** The tokens of the question about no document, by query. */
  readonly #numAround = new Map<string, number>();

  constructor(usable: UsableModel, sender: Sender, asked: Asked) {
    this.#usable = usable;
    this.#sender = sender;
    this.#asked = asked;
    const { ofPair = Number.POSITIVE_INFINITY } = asked.limits ?? {};
    // The answer needs a token of the context.
    this.#limit = limitedTo(usable.info, ofPair + 1);
  }

  /** Encodes the documents if they may lose their ends. */
  async read(pairs: readonly Pair[]): Promise<void> {
    if (this.#asked.limits === undefined) return;
    const { signal, caller } = this.#sender;
    const texts = [...new Set(pairs.map(({ document }) => document))];
    const asker = { signal, caller, addSpecial: false };
    const encoded = await encodePrompts(texts, this.#usable.model, UNLIMITED, asker);
    this.#idsOf = new Map(
      texts.map((text, index) => [text, requireIds(encoded[index], UNLIMITED, 'documents')]),
    );
  }

  async about(pair: Pair): Promise<GenerateRequest> {
    const cut = await this.#cut(pair);
    if (cut !== undefined) return cut;
    try {
      return await this.#prepared(pair, this.#limit);
    } catch (error) {
      // The query is to blame if the question does not fit without a document either.
      if (error instanceof ApiError && error.code === 'context_length_exceeded') await this.#around(pair);
      throw error;
    }
  }

  /** The question about as much of the document as it may keep; undefined if the document is not limited, or has no room. */
  async #cut(pair: Pair): Promise<GenerateRequest | undefined> {
    const ids = this.#idsOf.get(pair.document);
    if (ids === undefined) return undefined;
    const { ofDocument = Number.POSITIVE_INFINITY } = this.#asked.limits ?? {};
    const { maxModelLen, maxTokensIn = Number.POSITIVE_INFINITY } = this.#limit;
    const most = Math.min(maxModelLen - 1, maxTokensIn);
    let kept = Math.min(ids.length, ofDocument, most - (await this.#around(pair)));
    // Text that is cut may be encoded by more tokens than it had, also together with the text around it.
    for (let tries = 0; tries < MAX_CUTS && (kept > 0 || ids.length === 0); tries++) {
      const document =
        kept === ids.length ? pair.document : decodeAll(this.#usable.model.tokenizer, ids.slice(0, kept));
      const request = await this.#prepared({ ...pair, document }, UNLIMITED);
      const excess = request.promptIds.length - most;
      if (excess <= 0) return request;
      kept -= excess;
    }
    return undefined;
  }

  /** Throws a 400 on the query if that many do not fit. */
  async #around({ query, fields }: Pair): Promise<number> {
    const found = this.#numAround.get(query);
    if (found !== undefined) return found;
    const alone = { query, document: '', fields: { ...fields, document: fields.query } };
    const { promptIds } = await this.#prepared(alone, this.#limit);
    this.#numAround.set(query, promptIds.length);
    return promptIds.length;
  }

  async #prepared(pair: Pair, limit: ContextLimit): Promise<GenerateRequest> {
    const { model, info, api } = this.#usable;
    const usable = { model, info: { ...info, ...limit }, api };
    const { requests } = await prepare(callOf(pair, this.#asked), usable, this.#sender, () => 0n);
    return requests[0] as GenerateRequest;
  }
}

/** As relevanceOf(), with a model that has a classification head. */
async function relevanceByHead(
  c: Context,
  jobs: RouteDeps['jobs'],
  usable: UsableModel,
  pairs: readonly Pair[],
  { instruction, priority, limits }: Asked,
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
  const asker = { signal: c.req.raw.signal, caller: sharerOf(c), addSpecial: false };
  const fieldOf = new Map(pairs.map(({ query, fields }) => [query, fields.query] as const).reverse());
  const queries = [...new Set(pairs.map(({ query }) => query))];
  const encodedQueries = await encodePrompts(queries, model, info, asker);
  const { ofDocument = Number.POSITIVE_INFINITY, ofPair = Number.POSITIVE_INFINITY } = limits ?? {};
  const maxModelLen = Math.min(info.maxModelLen, ofPair);
  // A document that is cut keeps a token at least.
  const ofQuery = limits === undefined ? info : { maxModelLen: maxModelLen - 1 };
  const firstOf = new Map(
    queries.map((query, index) => {
      const field = fieldOf.get(query) ?? '';
      const first = [...prefixIds, ...requireIds(encodedQueries[index], info, field), ...betweenIds];
      requireInContext([...first, ...suffixIds], ofQuery, field);
      return [query, first];
    }),
  );
  const documents = [...new Set(pairs.map(({ document }) => document))];
  const ofText = limits === undefined ? info : UNLIMITED;
  const encoded = await encodePrompts(documents, model, ofText, asker);
  const idsOf = new Map(documents.map((text, index) => [text, encoded[index]]));
  const { modelIdentity } = info;
  const sender = senderOf(c);
  const requests = pairs.map(({ query, document, fields }) => {
    const first = firstOf.get(query) ?? [];
    const whole = requireIds(idsOf.get(document), info, fields.document);
    const room = Math.min(ofDocument, maxModelLen - first.length - suffixIds.length);
    const promptIds = [...first, ...(limits === undefined ? whole : whole.slice(0, room)), ...suffixIds];
    requireInContext(promptIds, info, fields.document);
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

function callOf({ query, document, fields }: Pair, { instruction = INSTRUCTION, priority }: Asked) {
  const content = `<Instruct>: ${instruction}\n<Query>: ${query}\n<Document>: ${document}`;
  const messages = [
    { role: 'system', content: TASK },
    { role: 'user', content },
  ] as const;
  return {
    isStreamed: false,
    input: { field: fields.document, messages, template: { foldsSystem: true } },
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
