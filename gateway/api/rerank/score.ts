import type { Handler } from 'hono';
import * as z from 'zod';
import { relevanceOf } from '../../calls/relevance.ts';
import { useModel } from '../../calls/use-model.ts';
import { tellIgnored } from '../../server/request-log.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { ignoredIn, parseBody } from '../body.ts';
import * as fields from '../fields.ts';
import { readJson } from '../json.ts';
import { limitsOf, MAX_DOCUMENTS, truncation } from './rerank.ts';

/** Scores of pairs of texts, in vLLM's form: text_1 is the query, text_2 the document. */

/** What clients of vLLM send along. */
export const scoreIgnored = {
  user: fields.ANYTHING,
  request_id: fields.ANYTHING,
} as const satisfies fields.IgnoredFields;

const texts = fields.oneOrMany(z.array(z.string()));

export const scoreBody = z
  .strictObject({
    model: fields.nonEmpty('model'),
    text_1: texts,
    text_2: texts,
    instruction: fields.nonEmpty('instruction').optional(),
    priority: fields.priority,
    truncate_prompt_tokens: truncation.truncate_prompt_tokens,
    ...fields.ignoredFields(scoreIgnored),
  })
  .superRefine(({ text_1, text_2 }, ctx) => {
    for (const [name, each] of Object.entries({ text_1, text_2 })) {
      if (each.length === 0)
        fields.violated(ctx, 'min_count(1)', `${name} is empty: send at least one text`, [name]);
      fields.refuseMany(ctx, name, [each.length, MAX_DOCUMENTS], 'texts', [name]);
    }
    if (text_1.length <= 1 || text_1.length === text_2.length) return;
    const rule = `must be one text, or as many as text_2 has (got ${text_1.length} and ${text_2.length})`;
    fields.violated(ctx, 'same_count', `text_1 ${rule}`, ['text_1']);
  });

export const scoresSchema = z
  .object({
    id: z.string(),
    object: z.literal('list'),
    created: z.int(),
    model: z.string(),
    data: z.array(z.object({ index: z.int(), object: z.literal('score'), score: z.number() })),
    usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
  })
  .meta({ title: 'Scores' });

export function scoring(deps: RouteDeps): Handler {
  return async (c) => {
    const body = await readJson(c);
    const { model, text_1, text_2, instruction, priority, truncate_prompt_tokens } = parseBody(
      scoreBody,
      body,
    );
    tellIgnored(c, deps.log, ignoredIn(scoreBody, body));
    const asked = { instruction, priority, limits: limitsOf(undefined, truncate_prompt_tokens) };
    return useModel(c, deps, { name: model }, async (usable) => {
      const pairs = text_2.map((document, index) => ({
        query: text_1.length === 1 ? (text_1[0] ?? '') : (text_1[index] ?? ''),
        document,
        fields: {
          query: text_1.length === 1 ? 'text_1' : `text_1.${index}`,
          document: text_2.length === 1 ? 'text_2' : `text_2.${index}`,
        },
      }));
      const { scores, numTokens } = await relevanceOf(c, deps, usable, pairs, asked);
      return c.json({
        id: `score-${deps.ids.uuid()}`,
        object: 'list',
        created: Math.floor(deps.now() / 1000),
        model,
        data: scores.map((score, index) => ({ index, object: 'score' as const, score })),
        usage: { prompt_tokens: numTokens, total_tokens: numTokens },
      } satisfies z.infer<typeof scoresSchema>);
    });
  };
}
