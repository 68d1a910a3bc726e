import * as z from 'zod';
import type { ToolChoice } from '../../calls/tool-offer.ts';
import * as fields from '../fields.ts';
import { ANYTHING, EITHER, type InertFields, inert, NO, NO_ITEMS } from '../inert.ts';
import { toolList, toolName, toolOf, toolParameters } from '../tools.ts';

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

const tool = z
  .object({
    type: z.literal('custom').optional(),
    name: toolName,
    description: z.string().optional(),
    input_schema: toolParameters,
    strict: z.boolean().default(false),
    ...inert(toolInert),
  })
  .transform(({ input_schema: parameters, ...sent }) => toolOf({ ...sent, parameters }, sent.strict));

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

export const toolFields = { tools: toolList('custom', tool), tool_choice: toolChoice };
