import * as z from 'zod';
import type { Tool } from '../../calls/tool-offer.ts';
import { ANYTHING, type InertFields, inert, NO } from '../inert.ts';
import { strictSchema } from '../strict-schema.ts';
import { allowedFields, functionFields, toolChoice, toolList, toolOf } from '../tools.ts';
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

const tool = z
  .object({
    type: z.literal('function'),
    ...functionFields,
    /** Undefined: strict if its schema has a strict form. */
    strict: z.boolean().optional(),
    ...inert(toolInert),
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
