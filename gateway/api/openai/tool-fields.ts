import * as z from 'zod';
import * as fields from '../fields.ts';
import { violated } from '../fields.ts';
import { memberOf } from '../text-content.ts';
import type { Tool, ToolChoice, ToolWish } from '../tool-offer.ts';
import { argumentsSchema } from '../tool-schema.ts';

/** Tools that an answer may call, and whether it must (docs/tools.md). What an answer may then be is tool-grammar.ts's. */

const MAX_TOOLS = 128;
const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const NAME_RULE = 'must have 1 to 64 characters, each a letter, digit, underscore or hyphen';

type Context = Pick<z.RefinementCtx, 'addIssue'>;

export const toolName = z.string().superRefine((name, ctx) => {
  if (!TOOL_NAME.test(name)) violated(ctx, { constraint: 'name' }, NAME_RULE);
});

const FUNCTIONS_ONLY = 'is not supported: tools are of the type "function" here';

const NO_OBJECT = 'must describe an object: the arguments of a function have names';

const parameters = z.custom<object>().superRefine((schema, ctx) => {
  const isObject = typeof schema === 'object' && schema !== null && !Array.isArray(schema);
  if (!isObject) violated(ctx, { constraint: 'type' }, 'must be a JSON Schema, an object');
  const type = memberOf(schema, 'type');
  if (isObject && type !== undefined && type !== 'object') violated(ctx, { constraint: 'type' }, NO_OBJECT);
});

const functionTool = z
  .strictObject({
    type: z.literal('function'),
    function: z.strictObject({
      name: toolName,
      description: z.string().optional(),
      parameters: z.preprocess((value) => value ?? undefined, parameters.optional()),
      strict: z.boolean().default(false),
    }),
  })
  .transform(({ type, function: { strict, ...described } }): Tool => {
    const { name, parameters } = described;
    return {
      name,
      parameters: argumentsSchema(parameters, strict),
      definition: { type, function: described },
    };
  });

/** Tools of other kinds are refused for what they are, not for what they lack as a function. */
const tool = z
  .unknown()
  // In a schema, null is a value like any other.
  .transform((sent) => fields.withoutNulls(sent, ['function.parameters']))
  .superRefine((sent, ctx) => {
    const type = memberOf(sent, 'type');
    if (typeof type === 'string' && type !== 'function')
      violated(ctx, { constraint: 'unsupported' }, FUNCTIONS_ONLY, ['type']);
  })
  .pipe(functionTool);

const namedChoice = z.strictObject({
  type: z.literal('function'),
  function: z.strictObject({ name: z.string() }),
});

const CHOICES = ['none', 'auto', 'required'] as const;
const NO_CHOICE =
  'must be "none", "auto", "required", or {"type":"function","function":{"name":"…"}} with the name of a tool';

const toolChoice = z
  .unknown()
  .transform((sent, ctx): ToolChoice => {
    const said = CHOICES.find((choice) => choice === sent);
    if (said !== undefined) return said;
    const named = namedChoice.safeParse(sent);
    if (named.success) return named.data.function;
    violated(ctx, { constraint: 'type' }, NO_CHOICE);
    return z.NEVER;
  })
  .optional();

export const toolFields = {
  tools: z
    .array(tool)
    .max(MAX_TOOLS, `must have at most ${MAX_TOOLS} tools`)
    .superRefine((tools, ctx) => {
      const names = tools.map(({ name }) => name);
      const second = names.findIndex((name, index) => names.indexOf(name) < index);
      if (second >= 0) {
        const sentence = `tools.${second}.function.name is the name of another tool as well`;
        violated(ctx, { constraint: 'unique' }, sentence, [second, 'function', 'name']);
      }
    })
    .default([]),
  tool_choice: toolChoice,
  parallel_tool_calls: z.boolean().default(true),
};

type ToolFields = z.output<z.ZodObject<typeof toolFields>>;

/** In these, null is a value like any other. */
export const verbatimTools = ['tools'] as const;

/** Rules across fields. excluded: names of fields that were sent and leave no room for a call. */
export function checkTools(ctx: Context, request: ToolFields, excluded: readonly string[]): void {
  const { tools, tool_choice: choice = 'auto' } = request;
  if (tools.length === 0) {
    if (choice !== 'none' && choice !== 'auto')
      violated(ctx, { constraint: 'required' }, 'tool_choice asks for a call, but there are no tools', [
        'tool_choice',
      ]);
    return;
  }
  if (typeof choice === 'object' && !tools.some(({ name }) => name === choice.name)) {
    const sentence = `tool_choice names the tool ${JSON.stringify(choice.name.slice(0, 64))}, which is not among tools`;
    violated(ctx, { constraint: 'known' }, sentence, ['tool_choice']);
  }
  if (choice === 'none') return;
  for (const name of excluded) {
    const sentence = `${name} and tools exclude each other, unless tool_choice is "none"; send one of them`;
    violated(ctx, { constraint: 'exclusive' }, sentence, [name]);
  }
}

/** What it asks for; undefined where it has no tools. */
export function toolWishOf(request: ToolFields): ToolWish | undefined {
  const { tools, tool_choice: choice = 'auto', parallel_tool_calls: isParallel } = request;
  return tools.length === 0 ? undefined : { tools, choice, isParallel };
}
