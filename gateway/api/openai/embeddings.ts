import { Hono } from 'hono';
import { useModel } from '../../calls/use-model.ts';
import { tellIgnored } from '../../server/ignored-fields.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { embedTexts } from '../embed-texts.ts';
import { base64Json, floatsJson, vectorsAnswer } from '../embedding-json.ts';
import { readJson } from '../json.ts';
import { ignoredByEmbeddings, parseEmbeddingRequest } from './embedding-request.ts';

/** OpenAI's embeddings: a vector of length 1 for each text. */
export function embeddingRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.post('/v1/embeddings', async (c) => {
    const body = await readJson(c);
    const { model: name, input, dimensions, encoding_format } = parseEmbeddingRequest(body);
    tellIgnored(c, deps.log, ignoredByEmbeddings(body));
    return useModel(c, deps, { name }, async (usable) => {
      const wish = { field: 'input', texts: input, dimensions, limit: usable.info, isCut: false };
      return embedTexts(c, deps, usable, wish, ({ vectors, numTokens }) => {
        const usage = { prompt_tokens: numTokens, total_tokens: numTokens };
        return vectorsAnswer(c, deps, vectors, {
          dimensions,
          isScaled: true,
          vectorJson: encoding_format === 'base64' ? base64Json : floatsJson,
          around: (index) => [`{"object":"embedding","index":${index},"embedding":`, '}'],
          before: '{"object":"list","data":[',
          behind: `],"model":${JSON.stringify(name)},"usage":${JSON.stringify(usage)}}`,
        });
      });
    });
  });

  return app;
}
