import type { Handler } from 'hono';
import * as z from 'zod';
import { useModel } from '../../calls/use-model.ts';
import { tellIgnored } from '../../server/ignored-fields.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { base64Json, embedTexts, floatsJson, MAX_TEXTS, vectorsAnswer } from '../embed-texts.ts';
import * as fields from '../fields.ts';
import { ignoredIn, inert } from '../inert.ts';
import { readJson } from '../json.ts';
import { prompts } from './completion-request.ts';
import { embeddingInert } from './inert-fields.ts';

const MAX_DIMENSIONS = 2 ** 16;

/** The fields of POST /v1/embeddings. */
export const embeddingFields = {
  model: fields.nonEmpty('model'),
  input: prompts('input'),
  encoding_format: z.enum(['float', 'base64']).default('float'),
  dimensions: fields.integer('dimensions', 1, MAX_DIMENSIONS).optional(),
  ...inert(embeddingInert),
};

const schema = z.strictObject(embeddingFields).superRefine(({ input }, ctx) => {
  if (input.length <= MAX_TEXTS) return;
  const rule = { constraint: `max_count(${MAX_TEXTS})`, value: String(input.length) };
  fields.violated(ctx, rule, `input must have at most ${MAX_TEXTS} texts (got ${input.length})`, ['input']);
});

/** OpenAI's embeddings: a vector of length 1 for each text. */
export function embedding(deps: RouteDeps): Handler {
  return async (c) => {
    const body = await readJson(c);
    const { model: name, input, dimensions, encoding_format } = fields.parseBody(schema, body);
    tellIgnored(c, deps.log, ignoredIn(schema, body));
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
  };
}
