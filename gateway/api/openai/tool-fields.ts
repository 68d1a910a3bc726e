import * as z from 'zod';
import * as fields from '../fields.ts';
import type { Tool, ToolWish } from '../tool-offer.ts';
import {
  checkTools,
  refuseOtherTools,
  toolChoiceField,
  toolList,
  toolName,
  toolParameters,
} from '../tool-parts.ts';
import { argumentsSchema } from '../tool-schema.ts';

/** Tools that an answer may call, and whether it must (docs/tools.md). What an answer may then be is tool-grammar.ts's. */

const functionTool = z
  .strictObject({
    type: z.literal('function'),
    function: z.strictObject({
      name: toolName,
      description: z.string().optional(),
      parameters: z.preprocess((value) => value ?? undefined, toolParameters.optional()),
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
  .superRefine((sent, ctx) => refuseOtherTools(ctx, sent, 'function'))
  .pipe(functionTool);

const namedChoice = z
  .strictObject({ type: z.literal('function'), function: z.strictObject({ name: z.string() }) })
  .transform(({ function: named }) => named);

export const toolFields = {
  tools: toolList(tool, ['function', 'name']),
  tool_choice: toolChoiceField(namedChoice, '{"type":"function","function":{"name":"…"}}'),
  parallel_tool_calls: z.boolean().default(true),
};

type ToolFields = z.output<z.ZodObject<typeof toolFields>>;

/** In these, null is a value like any other. */
export const verbatimTools = ['tools'] as const;

/** Rules across fields. excluded: as of checkTools. */
export function checkToolFields(
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
  request: ToolFields,
  excluded: readonly string[],
): void {
  checkTools(ctx, { tools: request.tools, choice: request.tool_choice ?? 'auto' }, excluded);
}

/** What it asks for; undefined where it has no tools. */
export function toolWishOf(request: ToolFields): ToolWish | undefined {
  const { tools, tool_choice: choice = 'auto', parallel_tool_calls: isParallel } = request;
  return tools.length === 0 ? undefined : { tools, choice, isParallel };
}
