import * as z from 'zod';
import type { Tool, ToolParams } from '../calls/tool-offer.ts';
import { maxToolNameUnits } from '../generation/tool-call-parser.ts';
import { isJsonObject, memberOf, withoutAnyNulls } from '../json/json-values.ts';
import { type Context, typed, violated } from './fields.ts';
import { argumentsSchema } from './schema-grammar.ts';

/** Tools that an answer may call, and whether it must call one, in the forms that all APIs share (docs/tools.md). */

const MAX_TOOLS = 128;
const TOOL_NAME = /^[a-zA-Z0-9_-]+$/;
const NAME_RULE = `must have 1 to ${maxToolNameUnits} characters, each a letter, digit, underscore or hyphen`;
const NO_OBJECT = 'must describe an object: the arguments of a function have names';

export const toolName = z.string().superRefine((name, ctx) => {
  if (name.length > maxToolNameUnits || !TOOL_NAME.test(name)) violated(ctx, 'name', NAME_RULE);
});

/** The JSON Schema of a tool's arguments, as it was sent. */
export const toolParameters = z.custom<object>().superRefine((schema, ctx) => {
  const isObject = isJsonObject(schema);
  if (!isObject) violated(ctx, 'type', 'must be a JSON Schema, an object');
  const type = memberOf(schema, 'type');
  if (isObject && type !== undefined && type !== 'object') violated(ctx, 'type', NO_OBJECT);
});

/** The arguments of a call that are sent as an object, as it was sent. */
export const calledWith = z.custom<object>().superRefine((given, ctx) => {
  if (!isJsonObject(given)) violated(ctx, 'type', 'must be an object');
});

export const functionFields = {
  name: toolName,
  description: z.string().optional(),
  parameters: toolParameters.optional(),
};

type Described = z.output<z.ZodObject<typeof functionFields>>;

export function toolOf({ name, description, parameters }: Described, strict: boolean): Tool {
  const told = description === undefined ? {} : { description };
  const described = { name, ...told, ...(parameters && { parameters }) };
  return {
    name,
    parameters: argumentsSchema(parameters, strict),
    definition: { type: 'function', function: described },
  };
}

/**
 * A list of tools of this type with different names. A tool of another type is refused for its type, not for the members that
 * it lacks. place: the path of the name in a tool as it is sent. leftOut: other types, of which `tool` makes undefined; such tools are
 * left out, unless there are no others.
 */
export function toolList<Sent extends Tool>(
  type: string,
  tool: z.ZodType<Sent | undefined>,
  place: readonly string[] = ['name'],
  leftOut: readonly string[] = [],
) {
  const sentence = `is not supported: tools are of the type ${JSON.stringify(type)} here`;
  return z
    .array(typed([type, ...leftOut], () => sentence, tool))
    .max(MAX_TOOLS, `must have at most ${MAX_TOOLS} tools`)
    .superRefine((tools, ctx) => {
      if (tools.length > 0 && tools.every((each) => each === undefined))
        violated(ctx, 'unsupported', sentence, [0, 'type']);
      const names = tools.map((each) => each?.name);
      const second = names.findIndex((name, index) => name !== undefined && names.indexOf(name) < index);
      if (second < 0) return;
      const path = [second, ...place];
      const taken = `tools.${path.join('.')} is already the name of another tool`;
      violated(ctx, 'unique', taken, path);
    })
    .transform((tools) => tools.filter((each) => each !== undefined))
    .default([]);
}

/** The values of tool_choice that name no tool. */
const CHOICES = ['none', 'auto', 'required'] as const;

type Choice = Pick<ToolParams, 'choice' | 'allowed'>;

/** What the form that allows some of the tools has. named: the schema of the form that names a tool. */
export function allowedFields(named: z.ZodType<{ readonly name: string }>) {
  return {
    mode: z.enum(['auto', 'required']),
    tools: z
      .array(named)
      .min(1)
      .max(MAX_TOOLS)
      .transform((tools) => tools.map(({ name }) => name)),
  };
}

/**
 * The field tool_choice of OpenAI's APIs. named: the schema of the form that names a tool; written: that form as error messages
 * show it; allowed: the schema of the form that allows some of the tools.
 */
export function toolChoice(
  named: z.ZodType<{ readonly name: string }>,
  written: string,
  allowed: z.ZodType<{ readonly mode: 'auto' | 'required'; readonly tools: readonly string[] }>,
) {
  const rule = `must be "none", "auto", "required", or ${written} with the name of a tool`;
  return z
    .unknown()
    .transform((given, ctx): Choice => {
      const sent = withoutAnyNulls(given);
      const choice = CHOICES.find((each) => each === sent);
      if (choice !== undefined) return { choice };
      const one = named.safeParse(sent);
      if (one.success) return { choice: { name: one.data.name } };
      const some = allowed.safeParse(sent);
      if (some.success) return { choice: some.data.mode, allowed: some.data.tools };
      violated(ctx, 'type', rule);
      return z.NEVER;
    })
    .prefault('auto');
}

interface ToolFields {
  readonly tools: readonly Tool[];
  readonly tool_choice: Choice & { readonly isParallel?: boolean };
  readonly parallel_tool_calls?: boolean;
}

/**
 * Checks the rules that concern several fields. excluded: names of the fields in the request that leave no room for a
 * call.
 */
export function checkTools(
  ctx: Context,
  { tools, tool_choice: { choice, allowed = [] } }: ToolFields,
  excluded: readonly string[] = [],
): void {
  if (tools.length === 0) {
    if (choice !== 'none' && choice !== 'auto')
      violated(ctx, 'required', 'tool_choice asks for a call, but there are no tools', ['tool_choice']);
    return;
  }
  const named = typeof choice === 'object' ? [choice.name] : allowed;
  const unknown = named.find((wanted) => !tools.some(({ name }) => name === wanted));
  if (unknown !== undefined) {
    const sentence = `tool_choice names the tool ${JSON.stringify(unknown.slice(0, 64))}, which is not among tools`;
    violated(ctx, 'known', sentence, ['tool_choice']);
  }
  if (choice === 'none') return;
  for (const name of excluded) {
    const sentence = `${name} and tools exclude each other, unless tool_choice is "none"; send one of them`;
    violated(ctx, 'exclusive', sentence, [name]);
  }
}

/** The tools and how they may be called; undefined without tools. */
export function toolParamsOf({
  tools,
  tool_choice,
  parallel_tool_calls = true,
}: ToolFields): ToolParams | undefined {
  return tools.length === 0 ? undefined : { tools, isParallel: parallel_tool_calls, ...tool_choice };
}

/** A tool of OpenAI's chats and of Ollama: its function is in an object `function`. */
const tool = z
  .object({
    type: z.literal('function'),
    function: z.object({ ...functionFields, strict: z.boolean().default(false) }),
  })
  .transform(({ function: sent }) => toolOf(sent, sent.strict))
  .meta({ title: 'FunctionTool' });

const named = z
  .strictObject({ type: z.literal('function'), function: z.strictObject({ name: z.string() }) })
  .transform(({ function: sent }) => sent);

const allowed = z
  .strictObject({
    type: z.literal('allowed_tools'),
    allowed_tools: z.strictObject(allowedFields(named)),
  })
  .transform(({ allowed_tools: sent }) => sent);

export const toolFields = {
  tools: toolList('function', tool, ['function', 'name']),
  tool_choice: toolChoice(named, '{"type":"function","function":{"name":"…"}}', allowed),
  parallel_tool_calls: z.boolean().default(true),
};
