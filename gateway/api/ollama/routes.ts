import type { Handler } from 'hono';
import * as z from 'zod';
import { answer } from '../../calls/answer.ts';
import { findModel, useModel } from '../../calls/use-model.ts';
import { ApiError } from '../../errors/api-error.ts';
import { tellIgnored } from '../../server/request-log.ts';
import { type Answer, json, jsonOrLines, type RouteDeps, type RouteGroup } from '../../server/route-group.ts';
import { version } from '../../system/version.ts';
import { readJsonText } from '../json.ts';
import { missing } from '../route.ts';
import { type Form, loadedAnswer, unloadedAnswer } from './answer-lines.ts';
import {
  chatLineSchema,
  chatSchema,
  embeddingSchema,
  embedSchema,
  generateLineSchema,
  generateSchema,
  ollamaErrorBody,
  ollamaErrorSchema,
  psSchema,
  pulledSchema,
  showAnswerSchema,
  tagsSchema,
  versionSchema,
} from './answers.ts';
import { embedding, embeddingFields, embeddingOne, embedFields } from './embed.ts';
import {
  nameRequired,
  pulling,
  pullSchema,
  running,
  servedName,
  showing,
  showSchema,
  tags,
} from './models.ts';
import { type Asked, chatFields, generateFields, parseChat, parseGenerate } from './requests.ts';

const LINES =
  'Lines of JSON, the last one with done true; or, with stream false, that one with the whole text.';

/** The last line may be an error. */
function lines(last: z.ZodType, line: z.ZodType): Answer {
  return jsonOrLines(LINES, last, z.union([line, last, ollamaErrorSchema]));
}

/** Ollama's API. */
export const ollamaGroup: RouteGroup = {
  name: 'ollama',
  paths: ['/api/*'],
  access: 'key',
  generating: ['/api/chat', '/api/generate', '/api/embed', '/api/embeddings'],
  operations: [
    {
      method: 'post',
      path: '/api/chat',
      summary: 'The next message of a conversation, by Ollama’s API',
      handler: answering(parseChat),
      body: z.strictObject(chatFields),
      answers: { 200: lines(chatSchema, chatLineSchema) },
    },
    {
      method: 'post',
      path: '/api/generate',
      summary: 'The answer to a prompt',
      handler: answering(parseGenerate),
      body: z.strictObject(generateFields),
      answers: { 200: lines(generateSchema, generateLineSchema) },
    },
    {
      method: 'post',
      path: '/api/embed',
      summary: 'Vectors of texts',
      handler: embedding,
      body: z.strictObject(embedFields),
      answers: { 200: json('embeddings.', embedSchema) },
    },
    {
      method: 'post',
      path: '/api/embeddings',
      summary: 'The vector of one text, not scaled to a length',
      handler: embeddingOne,
      body: z.strictObject(embeddingFields),
      answers: { 200: json('embedding.', embeddingSchema) },
    },
    {
      method: 'get',
      path: '/api/version',
      summary: 'The server’s version',
      handler: () => (c) => c.json({ version: version() }),
      answers: { 200: json('version.', versionSchema) },
    },
    {
      method: 'get',
      path: '/api/tags',
      summary: 'All models',
      handler: tags,
      answers: { 200: json('models.', tagsSchema) },
    },
    {
      method: 'get',
      path: '/api/ps',
      summary: 'The loaded models',
      handler: running,
      answers: { 200: json('models.', psSchema) },
    },
    {
      method: 'post',
      path: '/api/show',
      summary: 'Details of one model',
      handler: showing,
      body: showSchema.meta(nameRequired),
      answers: { 200: json('details, model_info and capabilities.', showAnswerSchema) },
    },
    {
      method: 'post',
      path: '/api/pull',
      summary: 'Whether the server has a model; nothing is fetched',
      handler: pulling,
      body: pullSchema.meta(nameRequired),
      answers: {
        200: jsonOrLines('One line, of a status "success".', pulledSchema, pulledSchema),
      },
    },
    missing('post', '/api/push', 'Pushing models is not supported.'),
    missing(
      'post',
      '/api/create',
      'Models are not created over HTTP: start the server with the file of the model.',
    ),
    missing('post', '/api/copy', 'Models get their names from --served-model-name, and not over HTTP.'),
    missing(
      'delete',
      '/api/delete',
      'Models are not deleted over HTTP: remove the file on the machine of the server.',
    ),
  ],
  errorSchema: ollamaErrorSchema,
  // A full queue is a 503 here: Ollama's clients do not know 429.
  errorAnswer: (_, error) => ({
    body: ollamaErrorBody(error),
    status: error.status === 429 ? 503 : error.status,
  }),
};

/** A route that answers calls. A body without a prompt asks for its model to be loaded, or unloaded. */
function answering(parse: (body: unknown) => Asked): (deps: RouteDeps) => Handler {
  return (deps) => async (c) => {
    // Any media type is accepted: Ollama's own examples send none.
    const body = await readJsonText(c);
    const asked = parse(body);
    tellIgnored(c, deps.log, asked.ignored(deps.isUnloadAllowed));
    const model = servedName(asked.form.model, deps.models.names);
    const { form, isEmpty, isLast } = asked;
    if (isEmpty && isLast) return c.json(unload(model, deps, form));
    const answered = await (isEmpty
      ? useModel(c, deps, { name: model }, () => c.json(loadedAnswer({ ...form, now: deps.now })))
      : answer(c, deps, { ...asked, call: { ...asked.call, model } }, body));
    // The model leaves when this answer and those of all others have ended.
    if (isLast && deps.isUnloadAllowed) findModel(model, deps).dismiss();
    return answered;
  };
}

/** Has a model unloaded once nobody uses it, and says so. Throws a 400 if the operator keeps it loaded. */
function unload(name: string, deps: RouteDeps, form: Form): ReturnType<typeof unloadedAnswer> {
  const model = findModel(name, deps);
  if (deps.isUnloadAllowed && model.dismiss()) return unloadedAnswer({ ...form, now: deps.now });
  const why = deps.isUnloadAllowed
    ? 'it is pinned'
    : 'this server unloads no model for a request; --client-unload on allows it';
  const message = `keep_alive is 0, which asks for the model to be unloaded, but ${why}.`;
  throw new ApiError({ status: 400, code: 'unsupported_parameter', message, param: 'keep_alive' });
}
