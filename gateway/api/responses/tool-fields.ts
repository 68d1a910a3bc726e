import * as z from 'zod';
import type { Tool, ToolWish } from '../../calls/tool-offer.ts';
import { ANYTHING, type InertFields, inert, NO } from '../inert.ts';
import { strictSchema } from '../strict-schema.ts';
import {
  checkTools,
  choiceOf,
  MAX_TOOLS,
  refuseOtherTools,
  toolChoiceField,
  toolList,
  toolName,
  toolParameters,
} from '../tool-parts.ts';
import { argumentsSchema } from '../tool-schema.ts';
import type { ResponseJson } from './answers.ts';

/** The tools of a response: as in chats, but without the object `function` around each (docs/tools.md). */

/** Accepted fields of a tool that change nothing. */
export const toolInert = {
  allowed_callers: [['direct']],
  defer_loading: NO,
  // Only the client makes results, so their schema changes nothing here.
  output_schema: ANYTHING,
} as const satisfies InertFields;

interface DescribedTool extends Tool {
  /** The tool as the response repeats it. */
  readonly described: object;
}

const functionFields = {
  type: z.literal('function'),
  name: toolName,
  description: z.string().optional(),
  parameters: z.preprocess((value) => value ?? undefined, toolParameters.optional()),
  /** Undefined: strict if its schema has a strict form. */
  strict: z.boolean().optional(),
  ...inert(toolInert),
};

const functionTool = z
  .object(functionFields)
  .transform(({ type, name, description, parameters: sent, strict: wanted }): DescribedTool => {
    const strictly = wanted === undefined ? strictOf(sent) : undefined;
    const strict = wanted ?? strictly !== undefined;
    const parameters = strictly?.parameters ?? sent;
    const told = { name, ...(description === undefined ? {} : { description }) };
    return {
      name,
      parameters: argumentsSchema(parameters, strict),
      definition: { type, function: { ...told, ...(parameters === undefined ? {} : { parameters }) } },
      described: { type, ...told, parameters: parameters ?? null, strict },
    };
  });

/** The strict form of the parameters of a tool that does not set `strict`, as with OpenAI. Undefined: they have none. */
function strictOf(sent: object | undefined): { readonly parameters: object | undefined } | undefined {
  const parameters = sent && strictSchema(sent);
  return sent === undefined || parameters !== undefined ? { parameters } : undefined;
}

const tool = z
  .unknown()
  .superRefine((sent, ctx) => refuseOtherTools(ctx, sent, 'function'))
  .pipe(functionTool);

const namedChoice = z.strictObject({ type: z.literal('function'), name: z.string() });

const allowedChoice = z
  .strictObject({
    type: z.literal('allowed_tools'),
    mode: z.enum(['auto', 'required']),
    tools: z.array(namedChoice).min(1).max(MAX_TOOLS),
  })
  .transform(({ mode, tools }) => ({ mode, names: tools.map(({ name }) => name) }));

export const toolFields = {
  tools: toolList(tool),
  tool_choice: toolChoiceField(namedChoice, '{"type":"function","name":"…"}', allowedChoice),
  parallel_tool_calls: z.boolean().default(true),
};

export type ToolFields = z.output<z.ZodObject<typeof toolFields>>;

/** Checks the rules that concern several fields. excluded: see checkTools(). */
export function checkToolFields(
  ctx: Pick<z.RefinementCtx, 'addIssue'>,
  { tools, tool_choice: choice }: ToolFields,
  excluded: readonly string[],
): void {
  checkTools(ctx, { tools, ...choiceOf(choice) }, excluded);
}

/** What the request asks of its tools; undefined if it has none. */
export function toolWishOf({
  tools,
  tool_choice: choice,
  parallel_tool_calls: isParallel,
}: ToolFields): ToolWish | undefined {
  return tools.length === 0 ? undefined : { tools, ...choiceOf(choice), isParallel };
}

/** These fields as the response repeats them. */
export function describedTools({
  tools,
  tool_choice = 'auto',
  parallel_tool_calls,
}: ToolFields): Pick<ResponseJson, 'parallel_tool_calls' | 'tool_choice' | 'tools'> {
  return {
    parallel_tool_calls,
    tool_choice: describedChoice(tool_choice),
    tools: tools.map(({ described }) => described),
  };
}

function describedChoice(choice: NonNullable<ToolFields['tool_choice']>): ResponseJson['tool_choice'] {
  if (typeof choice === 'string') return choice;
  const named = (name: string) => ({ type: 'function' as const, name });
  if (!('mode' in choice)) return named(choice.name);
  return { type: 'allowed_tools', mode: choice.mode, tools: choice.names.map(named) };
}
