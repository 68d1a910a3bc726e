import type { TemplateCall, TemplateMessage } from './bounded-template.ts';
import { oneLine } from './jinja/json.ts';
import { fromJson } from './jinja/values.ts';
import { genericFormat } from './tool-call-format.ts';

/**
 * Tools for a chat template that knows none: the tools, and the calls and results of a conversation, become texts of its messages, in
 * the form of `genericFormat`. docs/tools.md shows them.
 */

/** A conversation as templates that know tools get it. */
export interface ToolConversation {
  readonly messages: readonly TemplateMessage[];
  readonly tools?: readonly object[];
}

/** takesSystem: whether the template writes a system message. If it does not, the first user's message describes the tools. */
export function withToolsInText(
  { messages, tools }: ToolConversation,
  takesSystem: () => boolean,
): TemplateMessage[] {
  const said = withCallsInText(messages);
  return tools === undefined ? said : describedIn(said, tools, takesSystem() ? 'system' : 'user');
}

/** Results become messages of the user. Those side by side become one: some templates require that roles alternate. */
function withCallsInText(messages: readonly TemplateMessage[]): TemplateMessage[] {
  const said: TemplateMessage[] = [];
  let hasResults = false;
  for (const { role, content, tool_calls = [], tool_call_id, name, ...rest } of messages) {
    const isResult = role === 'tool';
    const text = isResult ? resultText(content) : joined([content, ...tool_calls.map(callText)], '\n');
    const last = said.at(-1);
    if (last !== undefined && hasResults && (isResult || role === 'user'))
      said[said.length - 1] = { ...last, content: joined([last.content, text], '\n') };
    else said.push({ ...rest, role: isResult ? 'user' : role, content: text });
    hasResults = isResult;
  }
  return said;
}

function describedIn(
  messages: readonly TemplateMessage[],
  tools: readonly object[],
  role: 'system' | 'user',
): TemplateMessage[] {
  const description = descriptionOf(tools);
  const at = messages.findIndex((message) => message.role === role);
  const first = messages[at];
  // A system message's own text comes first: it says what the model is.
  if (first === undefined) return [{ role, content: description }, ...messages];
  const texts = role === 'system' ? [first.content, description] : [description, first.content];
  return messages.with(at, { ...first, content: joined(texts, '\n\n') });
}

function descriptionOf(tools: readonly object[]): string {
  const { begin, between, end } = genericFormat;
  return [
    'You can call these tools. Each line describes one as JSON:',
    '<tools>',
    ...tools.map(jsonOf),
    '</tools>',
    'To call a tool, write its name and its arguments in this form:',
    `${begin}NAME${between}{"ARGUMENT": "VALUE"}${end}`,
  ].join('\n');
}

function callText({ function: { name, arguments: given } }: TemplateCall): string {
  const { begin, between, end } = genericFormat;
  return begin + name + between + jsonOf(given) + end;
}

function resultText(content: string): string {
  return `<tool_response>\n${content}\n</tool_response>`;
}

function jsonOf(value: unknown): string {
  return oneLine(fromJson(value));
}

function joined(texts: readonly string[], separator: string): string {
  return texts.filter((text) => text !== '').join(separator);
}
