import * as z from 'zod';
import { endedByFields, markFields } from '../answer-fields.ts';
import { openAiErrorSchema, tokenLogprobSchema } from '../openai/answers.ts';
import { effort } from '../thinking-parts.ts';

/** The bodies and events of the routes of responses: types for the code that makes them, schemas for /openapi.json. */

const itemStatus = z.enum(['in_progress', 'completed', 'incomplete']);
export type ItemStatus = z.infer<typeof itemStatus>;

const textPart = z.object({
  type: z.literal('output_text'),
  text: z.string(),
  annotations: z.array(z.never()),
  logprobs: z.array(tokenLogprobSchema),
});

const messageItem = z.object({
  id: z.string(),
  type: z.literal('message'),
  status: itemStatus,
  role: z.literal('assistant'),
  content: z.array(textPart),
});

const callItem = z.object({
  id: z.string(),
  type: z.literal('function_call'),
  status: itemStatus,
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
});

const reasoningPart = z.object({ type: z.literal('reasoning_text'), text: z.string() });

/** The event response.output_item.added has this item without content. */
const reasoningItem = z.object({
  id: z.string(),
  type: z.literal('reasoning'),
  status: itemStatus,
  summary: z.array(z.never()),
  content: z.array(reasoningPart).optional(),
});

const item = z.discriminatedUnion('type', [reasoningItem, messageItem, callItem]);
export type OutputItem = z.infer<typeof item>;

const usage = z.object({
  input_tokens: z.int(),
  input_tokens_details: z.object({ cached_tokens: z.int() }),
  output_tokens: z.int(),
  output_tokens_details: z.object({ reasoning_tokens: z.int() }),
  total_tokens: z.int(),
});
export type Usage = z.infer<typeof usage>;

const namedTool = z.object({ type: z.literal('function'), name: z.string() });

/** A part of the request that the response repeats. Its members have no schema here. */
const asSent = z.custom<object>().meta({ type: 'object' });

export const responseSchema = z
  .object({
    id: z.string(),
    object: z.literal('response'),
    created_at: z.int(),
    status: z.enum(['in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
    background: z.boolean(),
    completed_at: z.int().nullable(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    incomplete_details: z.object({ reason: z.literal('max_output_tokens') }).nullable(),
    instructions: z.string().nullable(),
    max_output_tokens: z.int().nullable(),
    metadata: z.record(z.string(), z.string()),
    model: z.string(),
    output: z.array(item),
    parallel_tool_calls: z.boolean(),
    previous_response_id: z.null(),
    reasoning: z.object({ effort: effort.nullable(), summary: z.literal('auto').nullable() }),
    service_tier: z.literal('default'),
    store: z.boolean(),
    temperature: z.number(),
    text: z.object({ format: asSent, verbosity: z.literal('medium') }),
    tool_choice: z.union([
      z.string(),
      namedTool,
      z.object({ type: z.literal('allowed_tools'), mode: z.string(), tools: z.array(namedTool) }),
    ]),
    tools: z.array(asSent),
    top_logprobs: z.int(),
    top_p: z.number(),
    truncation: z.literal('disabled'),
    usage: usage.nullable(),
    ...endedByFields,
    ...markFields,
  })
  .meta({ title: 'Response' });
export type ResponseJson = z.infer<typeof responseSchema>;

export const deletedSchema = z
  .object({ id: z.string(), object: z.literal('response'), deleted: z.literal(true) })
  .meta({ title: 'DeletedResponse' });
export type DeletedResponse = z.infer<typeof deletedSchema>;

const numbered = { sequence_number: z.int() };
const inOutput = { ...numbered, output_index: z.int() };
const inItem = { ...inOutput, item_id: z.string() };
const inPart = { ...inItem, content_index: z.int() };
const part = z.discriminatedUnion('type', [textPart, reasoningPart]);
export type OutputPart = z.infer<typeof part>;
const logprobs = z.array(tokenLogprobSchema);

function event<Type extends string, Fields extends z.ZodRawShape>(type: Type, fields: Fields) {
  return z.object({ type: z.literal(type), ...fields });
}

function stage<Type extends string>(type: Type) {
  return event(type, { ...numbered, response: responseSchema });
}

/** The schema of each event, by the name of the event. */
export const responseEventSchemas = {
  'response.created': stage('response.created'),
  'response.in_progress': stage('response.in_progress'),
  'response.output_item.added': event('response.output_item.added', { ...inOutput, item }),
  'response.content_part.added': event('response.content_part.added', { ...inPart, part }),
  'response.reasoning_text.delta': event('response.reasoning_text.delta', { ...inPart, delta: z.string() }),
  'response.reasoning_text.done': event('response.reasoning_text.done', { ...inPart, text: z.string() }),
  'response.output_text.delta': event('response.output_text.delta', {
    ...inPart,
    delta: z.string(),
    logprobs,
  }),
  'response.output_text.done': event('response.output_text.done', { ...inPart, text: z.string(), logprobs }),
  'response.content_part.done': event('response.content_part.done', { ...inPart, part }),
  'response.function_call_arguments.delta': event('response.function_call_arguments.delta', {
    ...inItem,
    delta: z.string(),
  }),
  'response.function_call_arguments.done': event('response.function_call_arguments.done', {
    ...inItem,
    name: z.string(),
    arguments: z.string(),
  }),
  'response.output_item.done': event('response.output_item.done', { ...inOutput, item }),
  'response.completed': stage('response.completed'),
  'response.incomplete': stage('response.incomplete'),
  'response.failed': stage('response.failed'),
  error: event('error', {
    ...numbered,
    ...openAiErrorSchema.shape,
    code: z.string().nullable(),
    message: z.string(),
    param: z.string().nullable(),
  }),
};
export type ResponseEventName = keyof typeof responseEventSchemas;
