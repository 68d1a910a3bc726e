import type { MissingRoute } from '../missing-routes.ts';

const NOT_STORED =
  'Responses are not stored here: POST /v1/responses answers with all of one, and the next request sends it back in input.';

/** Routes of OpenAI's responses that are not here, and what to do instead. */
export const MISSING: readonly MissingRoute[] = [
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
