import { Hono } from 'hono';
import { z } from 'zod';
import { ApiError } from '../api/error.ts';
import * as fields from '../api/fields.ts';
import { readJson } from '../api/json.ts';
import type { AppDeps } from '../app.ts';
import type { Model } from '../model/model.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { notReady } from './prompt.ts';

const tokenizeSchema = z.strictObject({
  content: z.string(),
  add_special: z.boolean().default(false),
  parse_special: z.boolean().default(true),
  with_pieces: z.boolean().default(false),
});

const detokenizeSchema = z.strictObject({ tokens: z.array(z.number().int().min(0)) });

/** Text to ids and back, in the shapes of llama-server. Works while the runner is away. */
export function tokenizeRoutes(deps: AppDeps): Hono {
  const app = new Hono();

  app.post('/tokenize', async (c) => {
    const request = fields.parseBody(tokenizeSchema, await readJson(c));
    const { tokenizer } = requireModel(deps);
    const options = { addSpecial: request.add_special, parseSpecial: request.parse_special };
    const ids = tokenizer.encode(request.content, options);
    return c.json({
      tokens: request.with_pieces ? ids.map((id) => ({ id, piece: piece(tokenizer, id) })) : ids,
    });
  });

  app.post('/detokenize', async (c) => {
    const { tokens } = fields.parseBody(detokenizeSchema, await readJson(c));
    const { tokenizer } = requireModel(deps);
    const outside = tokens.find((id) => id >= tokenizer.vocabSize);
    if (outside !== undefined) {
      const message = `tokens holds ${outside}, but the vocabulary ends at ${tokenizer.vocabSize - 1}`;
      const fieldErrors = [{ field: 'tokens', constraint: `range(0..${tokenizer.vocabSize})`, message }];
      throw new ApiError({ status: 400, code: 'invalid_request', message, fieldErrors });
    }
    const bytes = Buffer.concat(tokens.map((id) => tokenizer.bytes(id)));
    return c.json({ content: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes) });
  });

  return app;
}

/** A token's text, or its bytes where they are not text by themselves. */
function piece(tokenizer: Tokenizer, id: number): string | number[] {
  const bytes = tokenizer.bytes(id);
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return [...bytes];
  }
}

function requireModel(deps: AppDeps): Model {
  const model = deps.model();
  if (model !== undefined) return model;
  throw notReady(deps);
}
