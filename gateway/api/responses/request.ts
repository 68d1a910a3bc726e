import * as z from 'zod';
import { durable } from '../durable-field.ts';
import * as fields from '../fields.ts';
import { MAX_TOKENS, refuseIgnored } from '../fields.ts';
import { ANYTHING, type InertFields, ignoredIn, inert, NO_ITEMS, NOTHING } from '../inert.ts';
import { budgetFields, checkThinking, effort, type SaidOfThinking, saidBy } from '../thinking-parts.ts';
import { checkTools } from '../tools.ts';
import type { ResponseJson } from './answers.ts';
import { inputItems } from './input-items.ts';
import { textField } from './text-format.ts';
import { toolFields } from './tool-fields.ts';

/** The body of POST /v1/responses. Each field is obeyed, refused by name, or accepted because it changes nothing. */

/** The fields that say whether a response thinks, and for how long. All of the thinking is returned, never a summary. */
export const reasoningFields = {
  reasoning: z.strictObject({ effort: effort.optional(), summary: z.literal('auto').optional() }).optional(),
  /** OpenAI has no budget; these have the names that chats use. */
  ...budgetFields,
};

type ReasoningFields = z.output<z.ZodObject<typeof reasoningFields>>;

export function saidOfThinking(request: ReasoningFields): SaidOfThinking {
  return saidBy('reasoning.effort', request.reasoning?.effort, request);
}

/** The field `reasoning` as a response repeats it. */
export function describedReasoning({
  reasoning,
}: Pick<ReasoningFields, 'reasoning'>): ResponseJson['reasoning'] {
  return { effort: reasoning?.effort ?? null, summary: reasoning?.summary ?? null };
}

const MAX_TOP_LOGPROBS = 20;
const MAX_METADATA = 16;
const MAX_METADATA_KEY = 64;
const MAX_METADATA_VALUE = 512;

const LOGPROBS = 'message.output_text.logprobs';
/** All but the first concern data that no answer of this server has, so they change nothing. */
const INCLUDABLE = [
  LOGPROBS,
  'code_interpreter_call.outputs',
  'computer_call_output.output.image_url',
  'file_search_call.results',
  'message.input_image.image_url',
  'reasoning.encrypted_content',
  'web_search_call.action.sources',
  'web_search_call.results',
] as const;

export const responsesInert = {
  client_metadata: ANYTHING,
  context_management: NO_ITEMS,
  conversation: NOTHING,
  intent: ANYTHING,
  max_tool_calls: ANYTHING,
  moderation: NOTHING,
  previous_response_id: NOTHING,
  prompt: NOTHING,
  prompt_cache_key: ANYTHING,
  prompt_cache_options: ANYTHING,
  prompt_cache_retention: ANYTHING,
  safety_identifier: ANYTHING,
  service_tier: ['auto', 'default'],
  stream_options: [{}, { include_obfuscation: false }],
  truncation: ['disabled'],
  user: ANYTHING,
} as const satisfies InertFields;

/** The response repeats the metadata. Errors do not, since its texts may be private. */
const metadata = z.record(z.string(), z.string()).superRefine((pairs, ctx) => {
  const entries = Object.entries(pairs);
  if (entries.length > MAX_METADATA) {
    const rule = { constraint: `max_count(${MAX_METADATA})`, value: String(entries.length) };
    fields.violated(ctx, rule, `metadata must have at most ${MAX_METADATA} members (got ${entries.length})`);
  }
  const isTooLong = ([name, value]: [string, string]) =>
    [...name].length > MAX_METADATA_KEY || [...value].length > MAX_METADATA_VALUE;
  if (!entries.some(isTooLong)) return;
  const sentence = `metadata must have names of at most ${MAX_METADATA_KEY} characters and values of at most ${MAX_METADATA_VALUE}`;
  fields.violated(ctx, { constraint: `max_length(${MAX_METADATA_VALUE})` }, sentence);
});

/** The fields of POST /v1/responses. */
export const responsesFields = {
  model: fields.nonEmpty('model'),
  input: inputItems,
  instructions: z.string().optional(),
  max_output_tokens: fields.integer('max_output_tokens', 1, MAX_TOKENS).optional(),
  temperature: fields.float('temperature', 0, 2).default(1),
  top_p: fields.float('top_p', 0, 1).default(1),
  text: textField,
  ...reasoningFields,
  ...toolFields,
  include: z
    .array(z.enum(INCLUDABLE))
    .transform((names) => ({ logprobs: names.includes(LOGPROBS) }))
    .default({ logprobs: false }),
  top_logprobs: fields.integer('top_logprobs', 0, MAX_TOP_LOGPROBS).default(0),
  metadata: metadata.default({}),
  stream: z.boolean().default(false),
  /** The response continues without its client, and the journal keeps it. */
  background: z.boolean().default(false),
  durable,
  /** Must say whether the response is kept, if it is sent. */
  store: z.boolean().optional(),
  /** An addition: OpenAI has a seed only for chats. */
  seed: fields.seed('seed').optional(),
  ...inert(responsesInert),
};

const schema = z.strictObject(responsesFields).superRefine((request, ctx) => {
  const { include, top_logprobs, store } = request;
  const isKept = request.background || request.durable;
  checkThinking(ctx, saidOfThinking(request));
  checkTools(ctx, request, include.logprobs ? ['include'] : []);
  refuseIgnored(
    ctx,
    store === true && !isKept,
    'store',
    'needs background or durable: nothing else is stored here',
  );
  const isRefused = store === false && isKept;
  refuseIgnored(ctx, isRefused, 'store', 'must not be false with background or durable, which are stored');
  const isIgnored = !include.logprobs && top_logprobs > 0;
  refuseIgnored(ctx, isIgnored, 'top_logprobs', `needs include to have "${LOGPROBS}"`);
});

export type ResponsesRequest = z.output<typeof schema>;

/** Throws a 400 whose `param` is the first field at fault and whose message names all of them. */
export function parseResponsesRequest(body: unknown): ResponsesRequest {
  return fields.parseBody(schema, body);
}

/** The names of the ignored fields in the body, each once. */
export function ignoredByResponses(body: unknown): string[] {
  return ignoredIn(schema, body);
}
