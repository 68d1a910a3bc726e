import * as z from 'zod';
import type { AllowedTools, Tool, ToolChoice, ToolWish } from '../calls/tool-offer.ts';
import { isJsonObject, memberOf } from '../json/json-values.ts';
import { violated } from './fields.ts';
import { withoutAnyNulls } from './members.ts';

/** What the fields that offer tools have in common in all APIs (docs/tools.md). */

export const MAX_TOOLS = 128;
const TOOL_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const NAME_RULE = 'must have 1 to 64 characters, each a letter, digit, underscore or hyphen';
const NO_OBJECT = 'must describe an object: the arguments of a function have names';

type Context = Pick<z.RefinementCtx, 'addIssue'>;

export const toolName = z.string().superRefine((name, ctx) => {
  if (!TOOL_NAME.test(name)) violated(ctx, { constraint: 'name' }, NAME_RULE);
});

/** The JSON Schema of a tool's arguments, as it was sent. */
export const toolParameters = z.custom<object>().superRefine((schema, ctx) => {
  const isObject = isJsonObject(schema);
  if (!isObject) violated(ctx, { constraint: 'type' }, 'must be a JSON Schema, an object');
  const type = memberOf(schema, 'type');
  if (isObject && type !== undefined && type !== 'object') violated(ctx, { constraint: 'type' }, NO_OBJECT);
});

/** The arguments of a call that are sent as an object, as it was sent. */
export const calledWith = z.custom<object>().superRefine((given, ctx) => {
  if (!isJsonObject(given)) violated(ctx, { constraint: 'type' }, 'must be an object');
});

/** Reports a tool of another type, so that it is refused for its type. */
export function refuseOtherTools(ctx: Context, sent: unknown, type: string): void {
  const given = memberOf(sent, 'type');
  if (typeof given !== 'string' || given === type) return;
  const sentence = `is not supported: tools are of the type ${JSON.stringify(type)} here`;
  violated(ctx, { constraint: 'unsupported' }, sentence, ['type']);
}

/** The values of tool_choice that name no tool. */
const CHOICES = ['none', 'auto', 'required'] as const;

/**
 * The field tool_choice. named: the schema of the form that names a tool; written: that form as error messages show it;
 * allowed: the schema of the form that allows some of the tools.
 */
export function toolChoiceField(
  named: z.ZodType<{ readonly name: string }>,
  written: string,
  allowed: z.ZodType<AllowedTools>,
) {
  const rule = `must be "none", "auto", "required", or ${written} with the name of a tool`;
  return z
    .unknown()
    .transform((given, ctx): ToolChoice | AllowedTools => {
      const sent = withoutAnyNulls(given);
      const said = CHOICES.find((choice) => choice === sent);
      if (said !== undefined) return said;
      const parsed = named.safeParse(sent);
      if (parsed.success) return { name: parsed.data.name };
      const some = allowed.safeParse(sent);
      if (some.success) return some.data;
      violated(ctx, { constraint: 'type' }, rule);
      return z.NEVER;
    })
    .optional();
}

/** The choice that tool_choice makes, "auto" by default, and the names of the tools that may be called if these are not all. */
export function choiceOf(
  sent: ToolChoice | AllowedTools | undefined = 'auto',
): Pick<ToolWish, 'choice' | 'allowed'> {
  if (typeof sent === 'string' || !('mode' in sent)) return { choice: sent };
  return { choice: sent.mode, allowed: sent.names };
}

/** A list of tools with different names. place: the path of the name in a tool as it is sent. */
export function toolList<Schema extends z.ZodType<Tool>>(tool: Schema, place: readonly string[] = ['name']) {
  return z
    .array(tool)
    .max(MAX_TOOLS, `must have at most ${MAX_TOOLS} tools`)
    .superRefine((tools, ctx) => {
      const names = tools.map(({ name }) => name);
      const second = names.findIndex((name, index) => names.indexOf(name) < index);
      if (second < 0) return;
      const path = [second, ...place];
      const sentence = `tools.${path.join('.')} is already the name of another tool`;
      violated(ctx, { constraint: 'unique' }, sentence, path);
    })
    .default([]);
}

/**
 * Checks the rules that concern several fields. excluded: names of the fields in the request that leave no room for a
 * call.
 */
export function checkTools(
  ctx: Context,
  { tools, choice, allowed = [] }: Pick<ToolWish, 'tools' | 'choice' | 'allowed'>,
  excluded: readonly string[],
): void {
  if (tools.length === 0) {
    if (choice !== 'none' && choice !== 'auto')
      violated(ctx, { constraint: 'required' }, 'tool_choice asks for a call, but there are no tools', [
        'tool_choice',
      ]);
    return;
  }
  const named = typeof choice === 'object' ? [choice.name] : allowed;
  const unknown = named.find((wanted) => !tools.some(({ name }) => name === wanted));
  if (unknown !== undefined) {
    const sentence = `tool_choice names the tool ${JSON.stringify(unknown.slice(0, 64))}, which is not among tools`;
    violated(ctx, { constraint: 'known' }, sentence, ['tool_choice']);
  }
  if (choice === 'none') return;
  for (const name of excluded) {
    const sentence = `${name} and tools exclude each other, unless tool_choice is "none"; send one of them`;
    violated(ctx, { constraint: 'exclusive' }, sentence, [name]);
  }
}
