import { Hono } from 'hono';
import { ApiError } from '../../errors/api-error.ts';

const NOT_STORED =
  'Responses are not stored here: POST /v1/responses answers with all of one, and the next request sends it back in input.';

/** Routes of OpenAI's responses that are not here, and what to do instead. */
export const MISSING: readonly (readonly [
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  sentence: string,
])[] = [
  ['GET', '/v1/responses/:id', NOT_STORED],
  ['DELETE', '/v1/responses/:id', NOT_STORED],
  ['GET', '/v1/responses/:id/input_items', NOT_STORED],
  [
    'POST',
    '/v1/responses/:id/cancel',
    'Responses do not run in the background here: close the connection of one to end it.',
  ],
  ['POST', '/v1/responses/compact', 'Conversations are not compacted here.'],
  [
    'POST',
    '/v1/responses/input_tokens',
    'Tokens of an input are not counted here: POST /v1/messages/count_tokens counts those of a conversation.',
  ],
];

export function missingRoutes(): Hono {
  const app = new Hono();
  for (const [method, path, message] of MISSING) {
    app.on(method, path, () => {
      throw new ApiError({ status: 501, code: 'not_supported', message });
    });
  }
  return app;
}
