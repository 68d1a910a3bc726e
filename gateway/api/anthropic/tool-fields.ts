import * as z from 'zod';
import type { Tool, ToolChoice, ToolWish } from '../../calls/tool-offer.ts';
import * as fields from '../fields.ts';
import { ANYTHING, EITHER, type InertFields, inert, NO, NO_ITEMS } from '../inert.ts';
import { checkTools, refuseOtherTools, toolList, toolName, toolParameters } from '../tool-parts.ts';
import { argumentsSchema } from '../tool-schema.ts';

/** Tools in the form of Anthropic's API (docs/tools.md). */

/** Fields of a tool. */
export const toolInert = {
  allowed_callers: [['direct']],
  cache_control: ANYTHING,
  defer_loading: NO,
  // Arguments are streamed as they are drawn, whatever the value.
  eager_input_streaming: EITHER,
  input_examples: NO_ITEMS,
} as const satisfies InertFields;

const customFields = {
  type: z.literal('custom').optional(),
  name: toolName,
  description: z.string().optional(),
  input_schema: toolParameters,
  strict: z.boolean().default(false),
  ...inert(toolInert),
};

const customTool = z
  .object(customFields)
  .transform(({ name, description, input_schema: parameters, strict }): Tool => {
    const described = { name, ...(description === undefined ? {} : { description }), parameters };
    return {
      name,
      parameters: argumentsSchema(parameters, strict),
      definition: { type: 'function', function: described },
    };
  });

const tool = z
  .unknown()
  .superRefine((sent, ctx) => refuseOtherTools(ctx, sent, 'custom'))
  .pipe(customTool);

const toolChoice = z
  .strictObject({
    type: z.enum(['auto', 'any', 'tool', 'none']),
    name: z.string().optional(),
    disable_parallel_tool_use: z.boolean().default(false),
  })
  .superRefine(({ type, name }, ctx) => {
    if (type === 'tool' && name === undefined)
      fields.violated(ctx, { constraint: 'required' }, 'tool_choice.name is required with the type tool', [
        'name',
      ]);
    if (type !== 'tool' && name !== undefined) {
      const sentence = `tool_choice.name needs the type tool (got ${type})`;
      fields.violated(ctx, { constraint: 'exclusive' }, sentence, ['name']);
    }
  })
  .transform(({ type, name = '', disable_parallel_tool_use: isSingle }) => {
    const choices: Record<typeof type, ToolChoice> = {
      auto: 'auto',
      any: 'required',
      tool: { name },
      none: 'none',
    };
    return { choice: choices[type], isParallel: !isSingle };
  })
  .prefault({ type: 'auto' });

export const toolFields = { tools: toolList(tool), tool_choice: toolChoice };

type ToolFields = z.output<z.ZodObject<typeof toolFields>>;

/** Checks the rules that concern several fields. */
export function checkToolFields(
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
  { tools, tool_choice: { choice } }: ToolFields,
): void {
  checkTools(ctx, { tools, choice }, []);
}

/** The tools and how they may be called; undefined without tools. */
export function toolWishOf({ tools, tool_choice }: ToolFields): ToolWish | undefined {
  return tools.length === 0 ? undefined : { tools, ...tool_choice };
}
