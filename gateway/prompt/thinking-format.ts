/**
 * How the models of a family write what they think before they answer: between two marks. Whether a chat template is of such a
 * model is told by the texts in it, and whether a prompt has begun or ended the thinking by its last text. docs/thinking.md has more.
 */
export interface ThinkingFormat {
  readonly begin: string;
  readonly end: string;
  /** Where the template looks for what was thought, in a message of the assistant; undefined: nowhere. */
  readonly member: 'reasoning_content' | 'thinking' | undefined;
}

const begin = '<think>';
const end = '</think>';

/** Undefined: the template is of a model that does not think, or marks it in a way that is not known here. */
export function thinkingOf(templateSource: string): ThinkingFormat | undefined {
  if (!templateSource.includes(end)) return undefined;
  return { begin, end, member: memberOf(templateSource) };
}

/** Of any template: one may read thoughts that it marks in a way that is not known here. */
function memberOf(templateSource: string): ThinkingFormat['member'] {
  if (/\breasoning_content\b/.test(templateSource)) return 'reasoning_content';
  return /\bmessage\.thinking\b|\[['"]thinking['"]\]/.test(templateSource) ? 'thinking' : undefined;
}

/**
 * What a prompt says of the answer behind it. open: it is thought from its first token on. closed: nothing is thought. free: it
 * is if the answer begins with the mark.
 */
export type PromptEnd = 'open' | 'closed' | 'free';

/** tail: the end of the prompt, at least as long as both marks and the white space around them. */
export function promptEndOf(format: ThinkingFormat, tail: string): PromptEnd {
  const said = tail.trimEnd();
  if (said.endsWith(format.begin)) return 'open';
  return said.endsWith(format.end) ? 'closed' : 'free';
}
