import * as z from 'zod';
import { type Answer, json, jsonOrLines, type Operation } from '../../server/operation.ts';
import type { RouteGroup } from '../../server/route-group.ts';
import { type MissingRoute, missingRoutes } from '../missing-routes.ts';
import { generatingRoutes } from './answer.ts';
import {
  chatLineSchema,
  chatSchema,
  embeddingSchema,
  embedSchema,
  generateLineSchema,
  generateSchema,
  psSchema,
  pulledSchema,
  showAnswerSchema,
  tagsSchema,
  versionSchema,
} from './answers.ts';
import { embeddingFields, embedFields, embedRoutes } from './embed.ts';
import { ollamaErrorAnswer, ollamaErrorSchema } from './errors.ts';
import { modelRoutes, nameRequired, pullRoutes, pullSchema, showSchema } from './models.ts';
import { chatFields, generateFields } from './requests.ts';

/** Routes of Ollama's API that this server does not have, and what to do instead. */
const MISSING: readonly MissingRoute[] = [
  ['POST', '/api/push', 'Pushing models is not supported.'],
  ['POST', '/api/create', 'Models are not created over HTTP: start the server with the file of the model.'],
  ['POST', '/api/copy', 'Models get their names from --served-model-name, and not over HTTP.'],
  [
    'DELETE',
    '/api/delete',
    'Models are not deleted over HTTP: remove the file on the machine of the server.',
  ],
];

const LINES =
  'Lines of JSON, the last one with done true; or, with stream false, that one with the whole text.';

/** The last line may be an error. */
function lines(last: z.ZodType, line: z.ZodType): Answer {
  return jsonOrLines(LINES, last, z.union([line, last, ollamaErrorSchema]));
}

const operations: readonly Operation[] = [
  {
    method: 'post',
    path: '/api/chat',
    summary: 'The next message of a conversation, by Ollama’s API',
    body: z.strictObject(chatFields),
    answers: { 200: lines(chatSchema, chatLineSchema) },
  },
  {
    method: 'post',
    path: '/api/generate',
    summary: 'The answer to a prompt',
    body: z.strictObject(generateFields),
    answers: { 200: lines(generateSchema, generateLineSchema) },
  },
  {
    method: 'post',
    path: '/api/embed',
    summary: 'Vectors of texts',
    body: z.strictObject(embedFields),
    answers: { 200: json('embeddings.', embedSchema) },
  },
  {
    method: 'post',
    path: '/api/embeddings',
    summary: 'The vector of one text, not scaled to a length',
    body: z.strictObject(embeddingFields),
    answers: { 200: json('embedding.', embeddingSchema) },
  },
  {
    method: 'get',
    path: '/api/version',
    summary: 'The server’s version',
    answers: { 200: json('version.', versionSchema) },
  },
  {
    method: 'get',
    path: '/api/tags',
    summary: 'All models',
    answers: { 200: json('models.', tagsSchema) },
  },
  {
    method: 'get',
    path: '/api/ps',
    summary: 'The loaded models',
    answers: { 200: json('models.', psSchema) },
  },
  {
    method: 'post',
    path: '/api/show',
    summary: 'Details of one model',
    body: showSchema.meta(nameRequired),
    answers: { 200: json('details, model_info and capabilities.', showAnswerSchema) },
  },
  {
    method: 'post',
    path: '/api/pull',
    summary: 'Whether the server has a model; nothing is fetched',
    body: pullSchema.meta(nameRequired),
    answers: {
      200: jsonOrLines('One line, of a status "success".', pulledSchema, pulledSchema),
    },
  },
  ...MISSING.map(([method, path, sentence]): Operation => {
    return { method: method === 'POST' ? 'post' : 'delete', path, summary: `501: ${sentence}`, answers: {} };
  }),
];

export const ollamaGroup: RouteGroup = {
  name: 'ollama',
  paths: ['/api/*'],
  access: 'key',
  generating: ['/api/chat', '/api/generate', '/api/embed', '/api/embeddings'],
  routes: [generatingRoutes, embedRoutes, modelRoutes, pullRoutes, () => missingRoutes(MISSING)],
  operations,
  errorSchema: ollamaErrorSchema,
  errorAnswer: (_, error) => ollamaErrorAnswer(error),
};
