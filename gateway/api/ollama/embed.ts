import { type Context, Hono } from 'hono';
import type { RouteDeps } from '../../server/route-group.ts';
import { type EmbeddedTexts, embedTexts } from '../embed-texts.ts';
import { floatsJson, vectorsAnswer } from '../embedding-json.ts';
import { tellIgnored } from '../inert.ts';
import { readJsonText } from '../json.ts';
import { findModel, type UsableModel, useModel } from '../use-model.ts';
import { type EmbedRequest, parseEmbeddingRequest, parseEmbedRequest } from './embed-requests.ts';
import { servedName } from './model-name.ts';
import { contextOf } from './options.ts';
import { asksToUnload, ignoredByOllama } from './requests.ts';

type Asked = Pick<EmbedRequest, 'model' | 'keep_alive' | 'options' | 'truncate' | 'dimensions'>;

/**
 * Ollama's embeddings: /api/embed for several texts, scaled to a length of 1, and the older /api/embeddings for one text,
 * not scaled.
 */
export function embedRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/api/embed', async (c) => {
    const body = await readJsonText(c);
    const request = parseEmbedRequest(body);
    const { model, input, dimensions } = request;
    const beginMs = deps.monotonicNow();
    /** The nanoseconds since then. */
    const elapsed = (): number => Math.round((deps.monotonicNow() - beginMs) * 1e6);
    return answer(c, deps, body, request, async (usable) => {
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
  });

  app.post('/api/embeddings', async (c) => {
    const body = await readJsonText(c);
    const request = { ...parseEmbeddingRequest(body), truncate: true, dimensions: undefined };
    const { prompt } = request;
    return answer(c, deps, body, request, async (usable) => {
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
  });

  return app;
}

/**
 * Answers by the model that is named. It is loaded if necessary, and unloaded afterwards if the request asks for that.
 */
async function answer(
  c: Context,
  deps: RouteDeps,
  body: unknown,
  asked: Asked,
  answerBy: (usable: UsableModel) => Promise<Response>,
): Promise<Response> {
  tellIgnored(c, deps.log, ignoredByOllama({}, body, deps.isUnloadAllowed));
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
