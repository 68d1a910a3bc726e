import * as z from 'zod';
import type { Tool, ToolWish } from '../calls/tool-offer.ts';
import {
  checkTools,
  choiceOf,
  MAX_TOOLS,
  refuseOtherTools,
  toolChoiceField,
  toolList,
  toolName,
  toolParameters,
} from './tool-parts.ts';
import { argumentsSchema } from './tool-schema.ts';

/**
 * Tools that an answer may call, and whether it must call one (docs/tools.md). tool-grammar.ts makes the grammar of such
 * answers.
 */

const describedFields = {
  name: toolName,
  description: z.string().optional(),
  parameters: z.preprocess((value) => value ?? undefined, toolParameters.optional()),
  strict: z.boolean().default(false),
};

const functionFields = { type: z.literal('function'), function: z.object(describedFields) };

const functionTool = z
  .object(functionFields)
  .transform(({ type, function: { strict, ...described } }): Tool => {
    const { name, parameters } = described;
    return {
      name,
      parameters: argumentsSchema(parameters, strict),
      definition: { type, function: described },
    };
  });

/** A tool. A tool of another type is refused for its type, not for the members of a function that it lacks. */
const tool = z
  .unknown()
  .superRefine((sent, ctx) => refuseOtherTools(ctx, sent, 'function'))
  .pipe(functionTool);

const namedChoice = z
  .strictObject({ type: z.literal('function'), function: z.strictObject({ name: z.string() }) })
  .transform(({ function: named }) => named);

const allowedChoice = z
  .strictObject({
    type: z.literal('allowed_tools'),
    allowed_tools: z.strictObject({
      mode: z.enum(['auto', 'required']),
      tools: z.array(namedChoice).min(1).max(MAX_TOOLS),
    }),
  })
  .transform(({ allowed_tools: { mode, tools } }) => ({ mode, names: tools.map(({ name }) => name) }));

export const toolFields = {
  tools: toolList(tool, ['function', 'name']),
  tool_choice: toolChoiceField(namedChoice, '{"type":"function","function":{"name":"…"}}', allowedChoice),
  parallel_tool_calls: z.boolean().default(true),
};

type ToolFields = z.output<z.ZodObject<typeof toolFields>>;

/** Checks the rules that concern several fields. excluded: as in checkTools. */
export function checkToolFields(
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
  request: ToolFields,
  excluded: readonly string[],
): void {
  checkTools(ctx, { tools: request.tools, ...choiceOf(request.tool_choice) }, excluded);
}

/** The tools and how they may be called; undefined without tools. */
export function toolWishOf(request: ToolFields): ToolWish | undefined {
  const { tools, parallel_tool_calls: isParallel } = request;
  return tools.length === 0 ? undefined : { tools, ...choiceOf(request.tool_choice), isParallel };
}
