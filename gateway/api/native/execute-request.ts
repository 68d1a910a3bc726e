import { z } from 'zod';
import * as fields from '../fields.ts';

export const MAX_PROMPT_CHARACTERS = 32_768;
export const MAX_EXECUTE_TOKENS = 2048;

// In the order in which faults are reported.
const schema = z.strictObject({
  job_id: fields.nonEmpty('job_id'),
  prompt: fields.text('prompt', MAX_PROMPT_CHARACTERS),
  max_tokens: fields.integer('max_tokens', 1, MAX_EXECUTE_TOKENS).default(MAX_EXECUTE_TOKENS),
  temperature: fields.float('temperature', 0, 2).default(1),
  top_p: fields.float('top_p', 0, 1).default(1),
  top_k: fields.integer('top_k', 0, 2 ** 32 - 1).default(0),
  repetition_penalty: fields.floatAbove('repetition_penalty', 0, 2).default(1),
  stop: fields.stopSequences('stop').default([]),
  min_p: fields.float('min_p', 0, 1).default(0),
  seed: fields.seed('seed').optional(),
});

/** The fields of POST /execute. */
export const executeFields = schema.shape;

/** The body of POST /execute, checked and with its defaults. */
export type ExecuteRequest = z.output<typeof schema>;

/** Throws a 400 that lists every field at fault. */
export function parseExecuteRequest(body: unknown): ExecuteRequest {
  return fields.parseBody(schema, body);
}
