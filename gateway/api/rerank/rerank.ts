import type { Handler } from 'hono';
import * as z from 'zod';
import { type DocumentLimits, relevanceOf } from '../../calls/relevance.ts';
import { useModel } from '../../calls/use-model.ts';
import { tellIgnored } from '../../server/request-log.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { ignoredIn, parseBody } from '../body.ts';
import * as fields from '../fields.ts';
import { readJson } from '../json.ts';

/** Documents in the order of their relevance, in the form of Cohere and Jina. */

/** The most documents of one request. */
export const MAX_DOCUMENTS = 1000;

/** What clients of Cohere, Jina and vLLM send along. */
export const rerankIgnored = {
  user: fields.ANYTHING,
  request_id: fields.ANYTHING,
  // Fields of Cohere's first version: no document is divided into chunks, and of an object its text is read.
  max_chunks_per_doc: fields.ANYTHING,
  rank_fields: [['text']],
} as const satisfies fields.IgnoredFields;

const document = z
  .preprocess(
    (sent) => (typeof sent === 'string' ? { text: sent } : sent),
    z.object({ text: z.string() }, 'must be a string, or an object with a text'),
  )
  .meta({ type: ['string', 'object'] });

/** Fields by which a long document loses its end: Cohere's, and vLLM's. */
export const truncation = {
  max_tokens_per_doc: fields.integer('max_tokens_per_doc', 1, fields.MAX_TOKENS).optional(),
  truncate_prompt_tokens: fields.truncatePromptTokens,
};

/** Undefined unless one of them was sent. */
export function limitsOf(
  ofDocument: number | undefined,
  ofPair: number | undefined,
): DocumentLimits | undefined {
  return ofDocument === undefined && ofPair === undefined ? undefined : { ofDocument, ofPair };
}

export const rerankBody = z
  .strictObject({
    model: fields.nonEmpty('model'),
    query: fields.nonEmpty('query'),
    documents: z.array(document),
    top_n: fields.integer('top_n', 1, fields.MAX_TOKENS).optional(),
    return_documents: z.boolean().default(false),
    instruction: fields.nonEmpty('instruction').optional(),
    priority: fields.priority,
    ...truncation,
    ...fields.ignoredFields(rerankIgnored),
  })
  .superRefine(({ documents }, ctx) => {
    if (documents.length === 0)
      fields.violated(ctx, 'min_count(1)', 'documents is empty: send at least one', ['documents']);
    fields.refuseMany(ctx, 'documents', [documents.length, MAX_DOCUMENTS], 'documents', ['documents']);
  });

export const rankingSchema = z
  .object({
    id: z.string(),
    object: z.literal('list'),
    model: z.string(),
    results: z.array(
      z.object({
        index: z.int(),
        relevance_score: z.number(),
        document: z.object({ text: z.string() }).optional(),
      }),
    ),
    usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
  })
  .meta({ title: 'Ranking' });

export function ranking(deps: RouteDeps): Handler {
  return async (c) => {
    const body = await readJson(c);
    const { model, query, top_n, return_documents, instruction, priority, ...cut } = parseBody(
      rerankBody,
      body,
    );
    tellIgnored(c, deps.log, ignoredIn(rerankBody, body));
    const documents = cut.documents.map(({ text }) => text);
    const limits = limitsOf(cut.max_tokens_per_doc, cut.truncate_prompt_tokens);
    return useModel(c, deps, { name: model }, async (usable) => {
      const pairs = documents.map((document, index) => {
        return { query, document, fields: { query: 'query', document: `documents.${index}` } };
      });
      const asked = { instruction, priority, limits };
      const { scores, numTokens } = await relevanceOf(c, deps, usable, pairs, asked);
      const results = scores.map((relevance_score, index) => ({
        index,
        relevance_score,
        ...(return_documents ? { document: { text: documents[index] ?? '' } } : {}),
      }));
      // Sorting is stable, so equal documents stay in their order.
      results.sort((a, b) => b.relevance_score - a.relevance_score);
      return c.json({
        id: `rerank-${deps.ids.uuid()}`,
        object: 'list',
        model,
        results: results.slice(0, top_n),
        usage: { prompt_tokens: numTokens, total_tokens: numTokens },
      } satisfies z.infer<typeof rankingSchema>);
    });
  };
}
