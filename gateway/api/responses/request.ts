import * as z from 'zod';
import type { Tool } from '../../calls/tool-offer.ts';
import type { Grammar } from '../../runner/runner.ts';
import { durable } from '../durable-field.ts';
import * as fields from '../fields.ts';
import {
  ANYTHING,
  type InertFields,
  inert,
  MAX_TOKENS,
  NO,
  NO_ITEMS,
  NOTHING,
  refuseIgnored,
  violated,
} from '../fields.ts';
import { JSON_OBJECT, schemaGrammar } from '../schema-grammar.ts';
import { strictSchema } from '../strict-schema.ts';
import { budgetFields, checkThinking, effort, type SaidOfThinking, saidBy } from '../thinking-parts.ts';
import { allowedFields, checkTools, functionFields, toolChoice, toolList, toolOf } from '../tools.ts';
import type { ResponseJson } from './answers.ts';
import { inputItems } from './input-items.ts';

/** The body of POST /v1/responses. Each field is obeyed, refused by name, or accepted because it changes nothing. */

interface DescribedTool extends Tool {
  /** The tool as the response repeats it. */
  readonly described: object;
}

const tool = z
  .object({
    type: z.literal('function'),
    ...functionFields,
    /** Undefined: strict if its schema has a strict form. */
    strict: z.boolean().optional(),
    ...inert({
      allowed_callers: [['direct']],
      defer_loading: NO,
      // Only the client makes results, so their schema changes nothing here.
      output_schema: ANYTHING,
    }),
  })
  .transform(({ type, name, description, parameters: sent, strict: wanted }): DescribedTool => {
    const strictly = wanted === undefined ? strictOf(sent) : undefined;
    const strict = wanted ?? strictly !== undefined;
    const parameters = strictly?.parameters ?? sent;
    const told = description === undefined ? {} : { description };
    return {
      ...toolOf({ name, description, parameters }, strict),
      described: { type, name, ...told, parameters: parameters ?? null, strict },
    };
  });

/** The strict form of the parameters of a tool that does not set `strict`, as with OpenAI. Undefined: they have none. */
function strictOf(sent: object | undefined): { readonly parameters: object | undefined } | undefined {
  const parameters = sent && strictSchema(sent);
  return sent === undefined || parameters !== undefined ? { parameters } : undefined;
}

const named = z.strictObject({ type: z.literal('function'), name: z.string() });
const allowed = z.strictObject({ type: z.literal('allowed_tools'), ...allowedFields(named) });

export const toolFields = {
  tools: toolList('function', tool),
  tool_choice: toolChoice(named, '{"type":"function","name":"…"}', allowed),
  parallel_tool_calls: z.boolean().default(true),
};

type ToolFields = z.output<z.ZodObject<typeof toolFields>>;

/** These fields as the response repeats them. */
export function describedTools({
  tools,
  tool_choice: { choice, allowed: names },
  parallel_tool_calls,
}: ToolFields): Pick<ResponseJson, 'parallel_tool_calls' | 'tool_choice' | 'tools'> {
  const written = (name: string) => ({ type: 'function' as const, name });
  const chosen = typeof choice === 'string' ? choice : written(choice.name);
  return {
    parallel_tool_calls,
    tool_choice:
      names === undefined
        ? chosen
        : { type: 'allowed_tools', mode: String(choice), tools: names.map(written) },
    tools: tools.map(({ described }) => described),
  };
}

export const textInert = { verbosity: ['medium'] } as const satisfies InertFields;

interface TextFormat {
  /** Undefined: the answer may be any text. */
  readonly grammar: Grammar | undefined;
  /** The format as the response repeats it. */
  readonly described: object;
}

const PLAIN: TextFormat = { grammar: undefined, described: { type: 'text' } };

const format = z
  .strictObject({
    type: z.enum(['text', 'json_object', 'json_schema']),
    name: z.string().optional(),
    description: z.string().optional(),
    schema: z.unknown().optional(),
    strict: z.boolean().optional(),
  })
  .transform(({ type, ...described }, ctx): TextFormat => {
    if (type === 'json_schema') {
      const { name = null, description = null, schema = null, strict = false } = described;
      const grammar = schemaGrammar(ctx, 'text.format.schema', described.schema, strict);
      return { grammar, described: { type, name, description, schema, strict } };
    }
    for (const [name, value] of Object.entries(described)) {
      if (value === undefined) continue;
      const sentence = `text.format.${name} needs the type json_schema (got ${type})`;
      violated(ctx, { constraint: 'exclusive' }, sentence, [name]);
    }
    return type === 'text' ? PLAIN : { grammar: JSON_OBJECT, described: { type } };
  });

export const textField = z
  .strictObject({ format: format.optional(), ...inert(textInert) })
  .default({})
  .transform(({ format: asked }) => asked ?? PLAIN);

/** The fields that say whether a response thinks, and for how long. All of the thinking is returned, never a summary. */
const reasoningFields = {
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
  fields.refuseMany(ctx, 'metadata', [entries.length, MAX_METADATA], 'members');
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
  /** An addition too. */
  priority: fields.priority,
  ...inert(responsesInert),
};

export const responsesSchema = z.strictObject(responsesFields).superRefine((request, ctx) => {
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

export type ResponsesRequest = z.output<typeof responsesSchema>;
