import type { Handler } from 'hono';
import * as z from 'zod';
import { renderChatText, requireKnownIds } from '../../calls/prompt.ts';
import { tellGenericTools } from '../../calls/tool-offer.ts';
import { readModel } from '../../calls/use-model.ts';
import { memberOf } from '../../json/json-values.ts';
import { sharerOf } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import type { Tokenizer } from '../../tokenizer/tokenizer.ts';
import { tokenText } from '../../tokenizer/utf8.ts';
import { parseBody } from '../body.ts';
import { chatMessages, checkTemplateFields, renderOptions, templateFields } from '../conversation.ts';
import * as fields from '../fields.ts';
import { readJson } from '../json.ts';
import { inPieces, longAnswer, PIECE_CHARACTERS } from '../long-answer.ts';
import { toolFields } from '../tools.ts';

const ofLlamaServer = z.strictObject({
  content: z.string(),
  add_special: z.boolean().default(false),
  parse_special: z.boolean().default(true),
  with_pieces: z.boolean().default(false),
  model: z.string().optional(),
});

/** vLLM's body, with its default. */
const ofVllm = z
  .strictObject({
    prompt: z.string(),
    add_special_tokens: z.boolean().default(true),
    model: z.string().optional(),
  })
  .transform(({ prompt, add_special_tokens, model }) => {
    const how = { add_special: add_special_tokens, parse_special: true, with_pieces: false };
    return { content: prompt, model, ...how };
  });

export const tokenizeBody = z.union([ofLlamaServer, ofVllm]);

export const detokenizeBody = z.strictObject({
  tokens: fields.tokenIds('tokens', 0, Number.POSITIVE_INFINITY),
  model: z.string().optional(),
});

/** The most ids that a piece is made of. */
const PIECE_TOKENS = 1024;

/** Text to ids, in llama-server's form or vLLM's. Works while no runner is up, as detokenize does. */
export function tokenize(deps: RouteDeps): Handler {
  return async (c) => {
    const body = await readJson(c);
    const isOfVllm = memberOf(body, 'prompt') !== undefined;
    const { content, ...request } = parseBody(isOfVllm ? ofVllm : ofLlamaServer, body);
    const { tokenizer } = await readModel(request.model, deps);
    const options = {
      addSpecial: request.add_special,
      parseSpecial: request.parse_special,
      caller: sharerOf(c),
    };
    const [encoded] = await tokenizer.encodeTexts([content], options, c.req.raw.signal);
    const ids = encoded instanceof Uint32Array ? encoded : Uint32Array.from(encoded as readonly number[]);
    const maxLen = deps.models.expect(request.model).runner.status().info?.maxModelLen ?? null;
    const counted = isOfVllm ? `"count":${ids.length},"max_model_len":${maxLen},` : '';
    const texts = tokenized(ids, counted, request.with_pieces, tokenizer);
    return longAnswer(c, deps, ids.byteLength, inPieces(texts, PIECE_TOKENS));
  };
}

export function detokenize(deps: RouteDeps): Handler {
  return async (c) => {
    const { tokens, model } = parseBody(detokenizeBody, await readJson(c));
    const { tokenizer } = await readModel(model, deps);
    requireKnownIds(tokens, tokenizer.vocabSize, (index) => `tokens.${index}`);
    const ids = new Uint32Array(tokens);
    return longAnswer(c, deps, ids.byteLength, inPieces(detokenized(ids, tokenizer), PIECE_TOKENS));
  };
}

/** The answer's JSON, id by id. */
function* tokenized(
  ids: Uint32Array,
  counted: string,
  withPieces: boolean,
  tokenizer: Tokenizer,
): Generator<string> {
  const begin = `{${counted}"tokens":[`;
  for (const [at, id] of ids.entries()) {
    const json = withPieces ? JSON.stringify({ id, piece: piece(tokenizer, id) }) : id;
    yield `${at === 0 ? begin : ','}${json}`;
  }
  yield ids.length === 0 ? `${begin}]}` : ']}';
}

function* detokenized(ids: Uint32Array, tokenizer: Tokenizer): Generator<string> {
  // The decoder returns whole characters, so each text can be quoted by itself.
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const quoted = (text: string) => JSON.stringify(text).slice(1, -1);
  const begin = '{"content":"';
  for (const [at, id] of ids.entries()) {
    const bytes = tokenizer.bytes(id);
    // Drops the space that encoding puts in front of a text.
    const isPrefixed = at === 0 && tokenizer.addsSpace && bytes[0] === 0x20;
    const text = quoted(decoder.decode(isPrefixed ? bytes.subarray(1) : bytes, { stream: true }));
    yield at === 0 ? begin + text : text;
  }
  yield `${ids.length === 0 ? begin : ''}${quoted(decoder.decode())}"}`;
}

/** A token's text, or its bytes if they are not text by themselves. */
function piece(tokenizer: Tokenizer, id: number): string | number[] {
  const bytes = tokenizer.bytes(id);
  const { text, isText } = tokenText(bytes);
  return isText ? text : [...bytes];
}

export const applyTemplateBody = z
  .strictObject({
    messages: chatMessages,
    model: z.string().optional(),
    tools: toolFields.tools,
    ...templateFields,
  })
  .superRefine((request, ctx) => checkTemplateFields(ctx, request));

/** Renders a conversation to the prompt that a chat makes of it, in llama-server's form. Works while no runner is up. */
export function applyTemplate(deps: RouteDeps): Handler {
  return async (c) => {
    const request = parseBody(applyTemplateBody, await readJson(c));
    const model = await readModel(request.model, deps);
    if (request.tools.length > 0) tellGenericTools(c, model);
    const tools = request.tools.map(({ definition }) => definition);
    const options = { ...renderOptions(request), tools, signal: c.req.raw.signal, caller: sharerOf(c) };
    const prompt = await renderChatText(model, request.messages, options);
    return longAnswer(c, deps, 2 * prompt.length, promptJson(prompt));
  };
}

/**
 * Makes the answer's JSON in pieces. A cut may split a surrogate pair: each half becomes an escape, and readers join
 * them.
 */
function* promptJson(prompt: string): Generator<string, undefined> {
  const jsonOf = (at: number, end: number) => JSON.stringify(prompt.slice(at, end)).slice(1, -1);
  if (prompt === '') yield '{"prompt":""}';
  for (let at = 0; at < prompt.length; at += PIECE_CHARACTERS) {
    const end = at + PIECE_CHARACTERS;
    yield `${at === 0 ? '{"prompt":"' : ''}${jsonOf(at, end)}${end < prompt.length ? '' : '"}'}`;
  }
}
