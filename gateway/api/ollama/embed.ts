import type { Context, Handler } from 'hono';
import * as z from 'zod';
import { findModel, type UsableModel, useModel } from '../../calls/use-model.ts';
import { tellIgnored } from '../../server/ignored-fields.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { type EmbeddedTexts, embedTexts, floatsJson, MAX_TEXTS, vectorsAnswer } from '../embed-texts.ts';
import * as fields from '../fields.ts';
import { readJsonText } from '../json.ts';
import { servedName } from './models.ts';
import { contextOf, options } from './options.ts';
import { asksToUnload, ignoredByOllama, keepAlive } from './requests.ts';

/** Bodies of POST /api/embed and of its older form, /api/embeddings. */

const MAX_DIMENSIONS = 2 ** 16;

const sharedFields = { model: fields.nonEmpty('model'), keep_alive: keepAlive, options };

/** An empty text counts as none: the model is loaded, and there are no vectors. */
export const embedFields = {
  ...sharedFields,
  input: z
    .preprocess(
      (value) => (typeof value === 'string' ? (value === '' ? [] : [value]) : value),
      z
        .array(z.string(), 'must be a string or an array of strings')
        .max(MAX_TEXTS, `must have at most ${MAX_TEXTS} texts`),
    )
    .meta({ type: ['string', 'array'] })
    .default([]),
  /** Whether a text that is too long loses its end; otherwise it is refused. */
  truncate: z.boolean().default(true),
  dimensions: fields.integer('dimensions', 1, MAX_DIMENSIONS).optional(),
};

export const embeddingFields = { ...sharedFields, prompt: z.string().default('') };

const embedSchema = z.strictObject(embedFields);
const embeddingSchema = z.strictObject(embeddingFields);

type Asked = Pick<
  z.output<typeof embedSchema>,
  'model' | 'keep_alive' | 'options' | 'truncate' | 'dimensions'
>;

/** POST /api/embed: vectors of several texts, scaled to a length of 1. */
export function embedding(deps: RouteDeps): Handler {
  return async (c) => {
    const body = await readJsonText(c);
    const request = fields.parseBody(embedSchema, body);
    const { model, input, dimensions } = request;
    const beginMs = deps.monotonicNow();
    /** The nanoseconds since then. */
    const elapsed = (): number => Math.round((deps.monotonicNow() - beginMs) * 1e6);
    tellIgnored(c, deps.log, ignoredByOllama(embedSchema, body, request, deps.isUnloadAllowed));
    return answer(c, deps, request, async (usable) => {
      const load_duration = elapsed();
      const named = `{"model":${JSON.stringify(model)},"embeddings":[`;
      return embedAll(
        c,
        deps,
        usable,
        request,
        { field: 'input', texts: input },
        ({ vectors, numTokens }) => {
          const end = { total_duration: elapsed(), load_duration, prompt_eval_count: numTokens };
          return vectorsAnswer(c, deps, vectors, {
            dimensions,
            isScaled: true,
            vectorJson: floatsJson,
            around: () => ['', ''],
            before: named,
            behind: `],${JSON.stringify(end).slice(1)}`,
          });
        },
      );
    });
  };
}

/** POST /api/embeddings, the older form: the vector of one text, not scaled. */
export function embeddingOne(deps: RouteDeps): Handler {
  return async (c) => {
    const body = await readJsonText(c);
    const request = { ...fields.parseBody(embeddingSchema, body), truncate: true, dimensions: undefined };
    const { prompt } = request;
    tellIgnored(c, deps.log, ignoredByOllama(embeddingSchema, body, request, deps.isUnloadAllowed));
    return answer(c, deps, request, async (usable) => {
      if (prompt === '') return c.json({ embedding: [] });
      return embedAll(c, deps, usable, request, { field: 'prompt', texts: [prompt] }, ({ vectors }) =>
        vectorsAnswer(c, deps, vectors, {
          dimensions: undefined,
          isScaled: false,
          vectorJson: floatsJson,
          around: () => ['', ''],
          before: '{"embedding":',
          behind: '}',
        }),
      );
    });
  };
}

/**
 * Answers by the model that is named. It is loaded if necessary, and unloaded afterwards if the request asks for that.
 */
async function answer(
  c: Context,
  deps: RouteDeps,
  asked: Asked,
  answerBy: (usable: UsableModel) => Promise<Response>,
): Promise<Response> {
  const name = servedName(asked.model, deps.models.names);
  const answered = await useModel(c, deps, { name }, answerBy);
  if (asksToUnload(asked) && deps.isUnloadAllowed) findModel(name, deps).dismiss();
  return answered;
}

async function embedAll(
  c: Context,
  deps: RouteDeps,
  usable: UsableModel,
  { options, truncate, dimensions }: Asked,
  sent: { readonly field: string; readonly texts: readonly string[] },
  answerWith: (embedded: EmbeddedTexts) => Response,
): Promise<Response> {
  const wish = { ...sent, dimensions, limit: contextOf(options, usable.info), isCut: truncate };
  return embedTexts(c, deps, usable, wish, answerWith);
}
