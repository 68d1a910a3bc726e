import type { Handler } from 'hono';
import * as z from 'zod';
import { limitedTo } from '../../calls/prompt.ts';
import { useModel } from '../../calls/use-model.ts';
import { tellIgnored } from '../../server/request-log.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { ignoredIn, parseBody } from '../body.ts';
import { base64Json, embedTexts, MAX_TEXTS } from '../embed-texts.ts';
import * as fields from '../fields.ts';
import { ignoredFields } from '../fields.ts';
import { readJson } from '../json.ts';
import { prompts } from './completion-request.ts';
import { embeddingIgnored } from './fields.ts';

const MAX_DIMENSIONS = 2 ** 16;

/** The body of POST /v1/embeddings. */
export const embeddingBody = z
  .strictObject({
    model: fields.nonEmpty('model'),
    input: prompts('input'),
    encoding_format: z.enum(['float', 'base64']).default('float'),
    dimensions: fields.integer('dimensions', 1, MAX_DIMENSIONS).optional(),
    priority: fields.priority,
    truncate_prompt_tokens: fields.truncatePromptTokens,
    ...ignoredFields(embeddingIgnored),
  })
  .superRefine(({ input }, ctx) => {
    fields.refuseMany(ctx, 'input', [input.length, MAX_TEXTS], 'texts', ['input']);
  });

export const embeddingsSchema = z
  .object({
    object: z.literal('list'),
    data: z.array(
      z.object({
        object: z.literal('embedding'),
        index: z.int(),
        embedding: z.union([z.array(z.number()), z.string()]),
      }),
    ),
    model: z.string(),
    usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
  })
  .meta({ title: 'Embeddings' });

/** OpenAI's embeddings: a vector of length 1 for each text. */
export function embedding(deps: RouteDeps): Handler {
  return async (c) => {
    const body = await readJson(c);
    const {
      model: name,
      input,
      dimensions,
      encoding_format,
      priority,
      ...cut
    } = parseBody(embeddingBody, body);
    const most = cut.truncate_prompt_tokens;
    tellIgnored(c, deps.log, ignoredIn(embeddingBody, body));
    return useModel(c, deps, { name }, async (usable) => {
      const limit = limitedTo(usable.info, most);
      const wanted = { field: 'input', texts: input, dimensions, limit, isCut: most !== undefined, priority };
      return embedTexts(c, deps, usable, wanted, (numTokens) => {
        const usage = { prompt_tokens: numTokens, total_tokens: numTokens };
        return {
          before: '{"object":"list","data":[',
          around: (index) => [`{"object":"embedding","index":${index},"embedding":`, '}'],
          behind: `],"model":${JSON.stringify(name)},"usage":${JSON.stringify(usage)}}`,
          ...(encoding_format === 'base64' ? { vectorJson: base64Json } : {}),
        };
      });
    });
  };
}
