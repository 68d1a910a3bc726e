import type { ChatMessage } from './chat-template.ts';

/** Conversations as the template of gpt-oss takes them. */

/** It refuses tools without a description. */
export function describedTools(tools: readonly object[]): object[] {
  return tools.map((tool) => {
    const { function: given } = tool as { function?: object };
    return { ...tool, function: { description: '', ...given } };
  });
}

/** Of a message it writes one call, and either a text or a thought before it; a result is one of the call just before it. */
export function harmonyHistory(messages: readonly ChatMessage[]): ChatMessage[] {
  const said: ChatMessage[] = [];
  /** Messages with a call that has no result yet. */
  let waiting: ChatMessage[] = [];
  for (const message of messages) {
    const { role, answers, toolCalls = [] } = message;
    const at = role === 'tool' ? waiting.findIndex((each) => each.toolCalls?.[0]?.id === answers?.id) : -1;
    if (at >= 0) said.push(...waiting.splice(at, 1));
    if (role !== 'tool') said.push(...waiting.splice(0));
    if (toolCalls.length === 0) said.push(message);
    else waiting = withOneCall(message);
  }
  return [...said, ...waiting];
}

/** The template would write the text as a thought too. */
function withOneCall({ role, content, reasoning = '', toolCalls = [] }: ChatMessage): ChatMessage[] {
  const thought = [reasoning, content].filter((text) => text !== '').join('\n\n');
  return toolCalls.map((call, index) => {
    const before = index === 0 && thought !== '' ? { reasoning: thought } : {};
    return { role, content: '', ...before, toolCalls: [call] };
  });
}
