import type { Context, Handler } from 'hono';
import * as z from 'zod';
import { limitedTo } from '../../calls/prompt.ts';
import { findModel, type UsableModel, useModel } from '../../calls/use-model.ts';
import { tellIgnored } from '../../server/request-log.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { parseBody } from '../body.ts';
import { embedTexts, MAX_TEXTS } from '../embed-texts.ts';
import * as fields from '../fields.ts';
import { readJsonText } from '../json.ts';
import { asksToUnload, ignoredByOllama, keepAlive, options, unusedOptions } from './requests.ts';

/** Bodies of POST /api/embed and of its older form, /api/embeddings. */

const MAX_DIMENSIONS = 2 ** 16;

const sharedFields = { model: fields.nonEmpty('model'), keep_alive: keepAlive, options };

/** An empty text counts as none: the model is loaded, and there are no vectors. */
export const embedBody = z.strictObject({
  ...sharedFields,
  input: fields
    .oneOrMany(
      z
        .array(z.string(), 'must be a string or an array of strings')
        .max(MAX_TEXTS, `must have at most ${MAX_TEXTS} texts`),
    )
    .default([]),
  truncate: z.boolean().default(true),
  dimensions: fields.integer('dimensions', 1, MAX_DIMENSIONS).optional(),
});

export const embeddingBody = z.strictObject({ ...sharedFields, prompt: z.string().default('') });

export const embedSchema = z
  .object({
    model: z.string(),
    embeddings: z.array(z.array(z.number())),
    total_duration: z.int(),
    load_duration: z.int(),
    prompt_eval_count: z.int(),
  })
  .meta({ title: 'OllamaEmbed' });
export const embeddingSchema = z
  .object({ embedding: z.array(z.number()) })
  .meta({ title: 'OllamaEmbedding' });

/** POST /api/embed: vectors of several texts, scaled to a length of 1. */
export function embedding(deps: RouteDeps): Handler {
  return async (c) => {
    const request = await read(c, deps, embedBody);
    const { model, input: texts, dimensions, truncate: isCut, options: asked } = request;
    const beginMs = deps.monotonicNow();
    /** The nanoseconds since then. */
    const elapsed = (): number => Math.round((deps.monotonicNow() - beginMs) * 1e6);
    return answer(c, deps, request, async (usable) => {
      const load_duration = elapsed();
      const wanted = {
        field: 'input',
        texts,
        dimensions,
        limit: limitedTo(usable.info, asked.num_ctx),
        isCut,
      };
      return embedTexts(c, deps, usable, wanted, (prompt_eval_count) => {
        const end = { total_duration: elapsed(), load_duration, prompt_eval_count };
        return {
          before: `{"model":${JSON.stringify(model)},"embeddings":[`,
          behind: `],${JSON.stringify(end).slice(1)}`,
        };
      });
    });
  };
}

/** POST /api/embeddings, the older form: the vector of one text, not scaled. */
export function embeddingOne(deps: RouteDeps): Handler {
  return async (c) => {
    const request = await read(c, deps, embeddingBody);
    const { prompt, options: asked } = request;
    return answer(c, deps, request, async (usable) => {
      if (prompt === '') return c.json({ embedding: [] });
      const limit = limitedTo(usable.info, asked.num_ctx);
      const wanted = { field: 'prompt', texts: [prompt], dimensions: undefined, limit, isCut: true };
      const form = { before: '{"embedding":', behind: '}', isScaled: false };
      return embedTexts(c, deps, usable, wanted, () => form);
    });
  };
}

type Shared = z.output<z.ZodObject<typeof sharedFields>>;

async function read<Body extends z.ZodType<Shared>>(
  c: Context,
  deps: RouteDeps,
  schema: Body,
): Promise<z.output<Body>> {
  const body = await readJsonText(c);
  const request = parseBody(schema, body);
  const ignored = ignoredByOllama(schema, body, request, deps.isUnloadAllowed);
  tellIgnored(c, deps.log, [...new Set([...ignored, ...unusedOptions(body)])]);
  return request;
}

/** Answers by the model that is named. It is loaded if necessary, and unloaded afterwards if the request asks for that. */
async function answer(
  c: Context,
  deps: RouteDeps,
  asked: Shared,
  answerBy: (usable: UsableModel) => Promise<Response>,
): Promise<Response> {
  const { model: name } = asked;
  const answered = await useModel(c, deps, { name }, answerBy);
  if (asksToUnload(asked) && deps.isUnloadAllowed) findModel(name, deps).requestUnload();
  return answered;
}
