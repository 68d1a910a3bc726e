import { type ThinkingFormat, thinkingOf } from './thinking-format.ts';
import { type ToolUse, toolUseOf } from './tool-call-format.ts';

/** What the texts in a chat template show of the answers of its model. */
export interface TemplateMarks {
  /** How the template lets the model call tools. */
  readonly toolUse: ToolUse;
  /** How the model marks its thinking; undefined if it does not think, or marks it in an unknown way. */
  readonly thinking: ThinkingFormat | undefined;
}

/** A template is a megabyte that a stranger may have written, so this is called by the model's reader. */
export function marksIn(templateSource: string): TemplateMarks {
  return { toolUse: toolUseOf(templateSource), thinking: thinkingOf(templateSource) };
}
