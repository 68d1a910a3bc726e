import { Hono } from 'hono';
import { z } from 'zod';
import * as fields from '../api/fields.ts';
import { JSON_TYPE, readJson } from '../api/json.ts';
import type { AppDeps } from '../app.ts';
import type { Model } from '../model/model.ts';
import { longWork, type Steps } from '../ops/long-work.ts';
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

const detokenizeSchema = z.strictObject({ tokens: fields.tokenIds('tokens', 0, Number.POSITIVE_INFINITY) });

/** Tokens looked at in a step. */
const STEP_TOKENS = 1024;

/** Text to ids and back, in the shapes of llama-server. Works while the runner is away. */
export function tokenizeRoutes(deps: AppDeps): Hono {
  const app = new Hono();

  app.post('/tokenize', async (c) => {
    const request = fields.parseBody(tokenizeSchema, await readJson(c));
    const { tokenizer } = requireModel(deps);
    const { length } = request.content;
    const json = await longWork.run(length, tokenized(request, tokenizer), c.req.raw.signal);
    return c.body(json, 200, { 'content-type': JSON_TYPE });
  });

  app.post('/detokenize', async (c) => {
    const { tokens } = fields.parseBody(detokenizeSchema, await readJson(c));
    const { tokenizer } = requireModel(deps);
    requireKnownIds(tokens, tokenizer.vocabSize, (index) => `tokens.${index}`);
    return c.json({
      content: await longWork.run(tokens.length, detokenized(tokens, tokenizer), c.req.raw.signal),
    });
  });

  return app;
}

/** The answer's JSON. */
function* tokenized(request: z.output<typeof tokenizeSchema>, tokenizer: Tokenizer): Steps<string> {
  const options = { addSpecial: request.add_special, parseSpecial: request.parse_special };
  const ids = yield* tokenizer.encodeInSteps(request.content, options);
  const items: string[] = [];
  for (let at = 0; at < ids.length; at += STEP_TOKENS) {
    const some = ids.slice(at, at + STEP_TOKENS);
    const shown = request.with_pieces ? some.map((id) => ({ id, piece: piece(tokenizer, id) })) : some;
    items.push(JSON.stringify(shown).slice(1, -1));
    yield;
  }
  return `{"tokens":[${items.join(',')}]}`;
}

function* detokenized(ids: readonly number[], tokenizer: Tokenizer): Steps<string> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  let text = '';
  for (let at = 0; at < ids.length; at += STEP_TOKENS) {
    const bytes = Buffer.concat(ids.slice(at, at + STEP_TOKENS).map((id) => tokenizer.bytes(id)));
    text += decoder.decode(bytes, { stream: true });
    yield;
  }
  return text + decoder.decode();
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
