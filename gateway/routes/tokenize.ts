import { Hono } from 'hono';
import { z } from 'zod';
import * as fields from '../api/fields.ts';
import { readJson } from '../api/json.ts';
import type { AppDeps } from '../app.ts';
import type { Model } from '../model/model.ts';
import { tokenText } from '../tokenizer/token-text.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { notReady } from './prompt.ts';
import { requireKnownIds } from './token-ids.ts';

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
    requireKnownIds(tokens, tokenizer.vocabSize, (index) => `tokens.${index}`);
    const bytes = Buffer.concat(tokens.map((id) => tokenizer.bytes(id)));
    return c.json({ content: new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes) });
  });

  return app;
}

/** A token's text, or its bytes where they are not text by themselves. */
function piece(tokenizer: Tokenizer, id: number): string | number[] {
  const bytes = tokenizer.bytes(id);
  const { text, isText } = tokenText(bytes);
  return isText ? text : [...bytes];
}

function requireModel(deps: AppDeps): Model {
  const model = deps.model();
  if (model !== undefined) return model;
  throw notReady(deps);
}
