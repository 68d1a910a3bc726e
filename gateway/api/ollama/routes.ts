import type { Handler } from 'hono';
import * as z from 'zod';
import { answer } from '../../calls/answer.ts';
import { findModel, useModel } from '../../calls/use-model.ts';
import { unsupported } from '../../errors/api-error.ts';
import { tellIgnored } from '../../server/request-log.ts';
import { type Answer, json, jsonOrLines, type RouteDeps, type RouteGroup } from '../../server/route-group.ts';
import { version } from '../../system/version.ts';
import { readJsonText } from '../json.ts';
import { get, missing, post } from '../route.ts';
import {
  chatLineSchema,
  chatSchema,
  emptyAnswer,
  generateLineSchema,
  generateSchema,
  ollamaErrorBody,
  ollamaErrorSchema,
} from './answers.ts';
import { embedBody, embedding, embeddingBody, embeddingOne, embeddingSchema, embedSchema } from './embed.ts';
import {
  nameRequired,
  psSchema,
  pullBody,
  pulledSchema,
  pulling,
  running,
  showBody,
  showing,
  showSchema,
  tags,
  tagsSchema,
} from './models.ts';
import { type Asked, chatBody, generateBody, parseChat, parseGenerate } from './requests.ts';

const versionSchema = z.object({ version: z.string() }).meta({ title: 'OllamaVersion' });

const LINES =
  'Lines of JSON, the last one with done true; or, with stream false, that one with the whole text.';

/** The last line may be an error. */
function lines(last: z.ZodType, line: z.ZodType): Answer {
  return jsonOrLines(LINES, last, z.union([line, last, ollamaErrorSchema]));
}

export const ollamaGroup: RouteGroup = {
  name: 'ollama',
  paths: ['/api/*'],
  access: 'key',
  generating: ['/api/chat', '/api/generate', '/api/embed', '/api/embeddings'],
  operations: [
    post(
      '/api/chat',
      'The next message of a conversation, by Ollama’s API',
      answering(parseChat),
      chatBody,
      lines(chatSchema, chatLineSchema),
    ),
    post(
      '/api/generate',
      'The answer to a prompt',
      answering(parseGenerate),
      generateBody,
      lines(generateSchema, generateLineSchema),
    ),
    post('/api/embed', 'Vectors of texts', embedding, embedBody, json('embeddings.', embedSchema)),
    post(
      '/api/embeddings',
      'The vector of one text, not scaled to a length',
      embeddingOne,
      embeddingBody,
      json('embedding.', embeddingSchema),
    ),
    get(
      '/api/version',
      'The server’s version',
      () => (c) => c.json({ version: version() }),
      json('version.', versionSchema),
    ),
    get('/api/tags', 'All models', tags, json('models.', tagsSchema)),
    get('/api/ps', 'The loaded models', running, json('models.', psSchema)),
    post(
      '/api/show',
      'Details of one model',
      showing,
      showBody.meta(nameRequired),
      json('details, model_info and capabilities.', showSchema),
    ),
    post(
      '/api/pull',
      'Whether the server has a model; nothing is fetched',
      pulling,
      pullBody.meta(nameRequired),
      jsonOrLines('One line, of a status "success".', pulledSchema, pulledSchema),
    ),
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
    const { form, isEmpty, isLast } = asked;
    const { model } = form;
    if (isEmpty && isLast) {
      unload(model, deps);
      return c.json(emptyAnswer(form, deps.now(), 'unload'));
    }
    const answered = await (isEmpty
      ? useModel(c, deps, { name: model }, () => c.json(emptyAnswer(form, deps.now(), 'load')))
      : answer(c, deps, asked, body));
    // The model leaves when this answer and those of all others have ended.
    if (isLast && deps.isUnloadAllowed) findModel(model, deps).requestUnload();
    return answered;
  };
}

/** Has a model unloaded once nobody uses it. Throws a 400 if the operator keeps it loaded. */
function unload(name: string, deps: RouteDeps): void {
  const model = findModel(name, deps);
  if (deps.isUnloadAllowed && model.requestUnload()) return;
  const why = deps.isUnloadAllowed
    ? 'it is pinned'
    : 'this server unloads no model for a request; --client-unload on allows it';
  throw unsupported('keep_alive', `keep_alive is 0, which asks for the model to be unloaded, but ${why}.`);
}
