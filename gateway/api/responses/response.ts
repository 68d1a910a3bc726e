import * as z from 'zod';
import { callDigits, type Facts } from '../../calls/call.ts';
import type { ApiError } from '../../errors/api-error.ts';
import { type AnswerEnd, isCutShort } from '../../generation/text-stream.ts';
import { jsonText } from '../../json/json-values.ts';
import { endingFields, markFields, marks } from '../answer-fields.ts';
import { effort } from '../call-fields.ts';
import { openAiErrorSchema } from '../error-schemas.ts';
import { tokenLogprobSchema } from '../token-logprobs.ts';
import { type ResponsesRequest, reasoningSummary } from './request.ts';

/** A response and its events: what they are, and the JSON of a response in each of its stages. */

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

const item = z
  .discriminatedUnion('type', [reasoningItem, messageItem, callItem])
  .meta({ title: 'OutputItem' });
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
    previous_response_id: z.string().nullable(),
    reasoning: z.object({ effort: effort.nullable(), summary: reasoningSummary.nullable() }),
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
    ...endingFields,
    ...markFields,
  })
  .meta({ title: 'Response' });
export type ResponseJson = z.infer<typeof responseSchema>;

const numbered = { sequence_number: z.int() };
const inOutput = { ...numbered, output_index: z.int() };
const inItem = { ...inOutput, item_id: z.string() };
const inPart = { ...inItem, content_index: z.int() };
const part = z.discriminatedUnion('type', [textPart, reasoningPart]);
export type OutputPart = z.infer<typeof part>;
const logprobs = z.array(tokenLogprobSchema);

const stage = { ...numbered, response: responseSchema };

/** The fields of each event besides its type, by the name of the event. */
const eventFields = {
  'response.created': stage,
  'response.in_progress': stage,
  'response.output_item.added': { ...inOutput, item },
  'response.content_part.added': { ...inPart, part },
  'response.reasoning_text.delta': { ...inPart, delta: z.string() },
  'response.reasoning_text.done': { ...inPart, text: z.string() },
  'response.output_text.delta': { ...inPart, delta: z.string(), logprobs },
  'response.output_text.done': { ...inPart, text: z.string(), logprobs },
  'response.content_part.done': { ...inPart, part },
  'response.function_call_arguments.delta': { ...inItem, delta: z.string() },
  'response.function_call_arguments.done': { ...inItem, name: z.string(), arguments: z.string() },
  'response.output_item.done': { ...inOutput, item },
  'response.completed': stage,
  'response.incomplete': stage,
  'response.failed': stage,
  error: {
    ...numbered,
    ...openAiErrorSchema.shape,
    code: z.string().nullable(),
    message: z.string(),
    param: z.string().nullable(),
  },
};

export const responseEventSchemas = Object.fromEntries(
  Object.entries(eventFields).map(([type, fields]) => [
    type,
    z.object({ type: z.literal(type), ...fields }).meta({ title: type }),
  ]),
);
export type ResponseEventName = keyof typeof eventFields;

export function responseId(uuid: string): string {
  return `resp_${uuid}`;
}

export function endStatus(end: AnswerEnd): 'completed' | 'incomplete' {
  return isCutShort(end) ? 'incomplete' : 'completed';
}

/** Writes a response as JSON, in each of its stages. */
export class ResponseObject {
  readonly facts: Facts;
  readonly itemIds: ItemIds;
  readonly #request: ResponsesRequest;

  constructor(request: ResponsesRequest, facts: Facts) {
    this.#request = request;
    this.facts = facts;
    this.itemIds = itemIdsOf(facts.uuid);
  }

  inProgress(): string {
    return this.#json('in_progress', { output: [] });
  }

  ended(output: OutputItem[], end: AnswerEnd): string {
    const status = endStatus(end);
    return this.#json(status, {
      ...(status === 'completed'
        ? { completed_at: seconds(this.facts.now()) }
        : { incomplete_details: { reason: 'max_output_tokens' } }),
      output,
      usage: this.#usage(end),
      ...marks(end),
    });
  }

  /** output: the items of the answer as far as it arrived. */
  failed(output: OutputItem[], { code, message }: ApiError): string {
    if (code === 'cancelled') return this.#json('cancelled', { output });
    return this.#json('failed', { error: { code, message }, output });
  }

  #json(status: ResponseJson['status'], stage: Partial<ResponseJson>): string {
    const request = this.#request;
    const response: ResponseJson = {
      id: responseId(this.facts.uuid),
      object: 'response',
      created_at: seconds(this.facts.createdMs),
      status,
      background: request.background,
      completed_at: null,
      error: null,
      incomplete_details: null,
      instructions: request.instructions ?? null,
      max_output_tokens: request.max_output_tokens ?? null,
      metadata: request.metadata,
      model: request.model,
      output: [],
      previous_response_id: request.previous_response_id ?? null,
      reasoning: { effort: request.reasoning?.effort ?? null, summary: request.reasoning?.summary ?? null },
      service_tier: 'default',
      store: this.facts.isKept(),
      temperature: request.temperature,
      text: { format: request.text.described, verbosity: 'medium' },
      ...describedTools(request),
      top_logprobs: request.top_logprobs,
      top_p: request.top_p,
      truncation: 'disabled',
      usage: null,
      ...stage,
    };
    return jsonText(response);
  }

  #usage({ numTokens, numCachedTokens, numThinkingTokens = 0 }: AnswerEnd): Usage {
    const { numPromptTokens } = this.facts;
    return {
      input_tokens: numPromptTokens,
      input_tokens_details: { cached_tokens: numCachedTokens },
      output_tokens: numTokens,
      output_tokens_details: { reasoning_tokens: numThinkingTokens },
      total_tokens: numPromptTokens + numTokens,
    };
  }
}

/** The fields about tools as the response repeats them. */
function describedTools({ tools, tool_choice: { choice, allowed }, parallel_tool_calls }: ResponsesRequest) {
  const written = (name: string) => ({ type: 'function' as const, name });
  const chosen = typeof choice === 'string' ? choice : written(choice.name);
  return {
    parallel_tool_calls,
    tool_choice: allowed
      ? { type: 'allowed_tools' as const, mode: String(choice), tools: allowed.map(written) }
      : chosen,
    tools: tools.map(({ described }) => described),
  };
}

/** The ids of items. index: the place of the item among the items of its type. */
export interface ItemIds {
  reasoning(index: number): string;
  message(index: number): string;
  /** callId: the id that the result of the call must name. */
  call(index: number): { readonly id: string; readonly callId: string };
}

/** Makes the ids of items from the response's UUID. Calls and all but the first item of other types add their index. */
function itemIdsOf(uuid: string): ItemIds {
  const digits = callDigits(uuid);
  const numbered = (id: string, index: number) => (index === 0 ? id : `${id}_${index}`);
  return {
    reasoning: (index) => numbered(`rs_${uuid}`, index),
    message: (index) => numbered(`msg_${uuid}`, index),
    call: (index) => ({ id: `fc_${uuid}_${index}`, callId: `call_${digits}_${index}` }),
  };
}

/** The id of the response that has an item of this id; undefined if none has. */
export function responseOfItem(id: string): string | undefined {
  const uuid = /^(?:rs|msg|fc)_([0-9a-f-]{36})(?:_\d+)?$/.exec(id)?.[1];
  return uuid === undefined ? undefined : responseId(uuid);
}

function seconds(ms: number): number {
  return Math.floor(ms / 1000);
}
