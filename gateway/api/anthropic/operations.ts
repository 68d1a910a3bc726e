import { json, jsonOrEvents, type Operation } from '../../server/operation.ts';
import { messageEventSchemas, messageSchema, tokenCountSchema } from './answers.ts';
import { anthropicErrorSchema } from './errors.ts';
import { countSchema, messagesSchema } from './messages-request.ts';

export const anthropicOperations: readonly Operation[] = [
  {
    method: 'post',
    path: '/v1/messages',
    summary: 'The next message of a conversation, by Anthropic’s API',
    body: messagesSchema,
    answers: {
      200: jsonOrEvents('A message, or the events from message_start to message_stop.', messageSchema, {
        named: { ...messageEventSchemas, error: anthropicErrorSchema },
      }),
    },
  },
  {
    method: 'post',
    path: '/v1/messages/count_tokens',
    summary: 'How many tokens a conversation has',
    body: countSchema,
    answers: { 200: json('input_tokens.', tokenCountSchema) },
  },
];
