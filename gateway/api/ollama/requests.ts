import * as z from 'zod';
import * as fields from '../fields.ts';
import { ANYTHING, type InertFields, ignoredIn, inert, NO, NO_ITEMS, NOTHING, ZERO } from '../inert.ts';
import { asList, asObject, memberOf } from '../text-content.ts';
import { options, optionsInert } from './options.ts';

/** Bodies of POST /api/chat and /api/generate: each field obeyed, refused by name, or one that changes nothing. */

/** Bounds a conversation so that a body of tiny messages cannot cost more than its size. */
const MAX_MESSAGES = 4096;

/** Of both routes. */
export const sharedInert = {
  format: [''],
  logprobs: NO,
  think: NO,
  top_logprobs: ZERO,
  // Nothing is ever cut off a prompt, nor moved out of a context.
  shift: ANYTHING,
  truncate: NO,
} as const satisfies InertFields;

export const chatInert = { ...sharedInert, tools: NO_ITEMS } as const satisfies InertFields;

export const generateInert = {
  ...sharedInert,
  context: NO_ITEMS,
  images: NO_ITEMS,
  suffix: [''],
  template: [''],
} as const satisfies InertFields;

/** Of a message: what comes back of an answer, too. */
export const messageInert = {
  images: NO_ITEMS,
  thinking: ANYTHING,
  tool_call_id: NOTHING,
  tool_calls: NO_ITEMS,
  tool_name: NOTHING,
} as const satisfies InertFields;

const NO_TOOLS = 'is not supported: there are no tools here';

const role = z
  .unknown()
  .superRefine((value, ctx) => {
    if (value === 'tool') fields.violated(ctx, { constraint: 'unsupported' }, NO_TOOLS);
  })
  .pipe(z.enum(['system', 'user', 'assistant']));

const message = z
  .strictObject({ role, content: z.string(), ...inert(messageInert) })
  .transform(({ role, content }) => ({ role, content }));

const NO_CONTINUATION =
  'messages must not end with one of the assistant: an answer that goes on from it is not supported';

const sharedFields = {
  model: fields.nonEmpty('model'),
  stream: z.boolean().default(true),
  keep_alive: z
    .union([z.string(), z.number()], 'must be a duration such as "5m", or a number of seconds')
    .optional(),
  options,
};

export const chatFields = {
  ...sharedFields,
  messages: z
    .array(message)
    .max(MAX_MESSAGES, `must have at most ${MAX_MESSAGES} messages`)
    .superRefine((messages, ctx) => {
      if (messages.at(-1)?.role === 'assistant')
        fields.violated(ctx, { constraint: 'unsupported' }, NO_CONTINUATION);
    })
    .default([]),
  ...inert(chatInert),
};

export const generateFields = {
  ...sharedFields,
  prompt: z.string().default(''),
  system: z.string().default(''),
  raw: z.boolean().default(false),
  ...inert(generateInert),
};

const chatSchema = z.strictObject(chatFields);

const generateSchema = z.strictObject(generateFields).superRefine(({ raw, system }, ctx) => {
  if (raw && system !== '') {
    const message = 'system must not come with raw, where the prompt is all that the model reads';
    fields.violated(ctx, { constraint: 'exclusive' }, message, ['system']);
  }
});

export type ChatRequest = z.output<typeof chatSchema>;
export type GenerateRequestBody = z.output<typeof generateSchema>;

/** Throws a 400 whose message names every field at fault. */
export function parseChatRequest(body: unknown): ChatRequest {
  return fields.parseBody(chatSchema, body);
}

export function parseGenerateRequest(body: unknown): GenerateRequestBody {
  return fields.parseBody(generateSchema, body);
}

/**
 * Names of what was sent and not looked at, each once. For how long models stay, their operator says; isUnloaded: whether one
 * leaves when a client asks for it.
 */
export function ignoredByOllama(table: InertFields, body: unknown, isUnloaded: boolean): string[] {
  const inMessages = asList(memberOf(body, 'messages')).flatMap((each) =>
    ignoredIn(messageInert, asObject(each), 'messages.'),
  );
  const isObeyed = isUnloaded && asksToUnload({ keep_alive: memberOf(body, 'keep_alive') });
  return [
    ...ignoredIn(isObeyed ? table : { ...table, keep_alive: ANYTHING }, asObject(body)),
    ...ignoredIn(optionsInert, asObject(memberOf(body, 'options')), 'options.'),
    ...new Set(inMessages),
  ];
}

const ZERO_DURATION = /^-?0+(\.0*)?[a-zµ]*$/;

/** Whether a request asks for its model to be unloaded. */
export function asksToUnload({ keep_alive }: { readonly keep_alive?: unknown }): boolean {
  return keep_alive === 0 || (typeof keep_alive === 'string' && ZERO_DURATION.test(keep_alive));
}
