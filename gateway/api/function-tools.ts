import * as z from 'zod';
import { allowedFields, functionFields, toolChoice, toolList, toolOf } from './tools.ts';

/** Tools in the form of OpenAI's chats and of Ollama: each function is in an object `function`. */

const tool = z
  .object({
    type: z.literal('function'),
    function: z.object({ ...functionFields, strict: z.boolean().default(false) }),
  })
  .transform(({ function: sent }) => toolOf(sent, sent.strict));

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
