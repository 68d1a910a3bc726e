/**
 * The two marks between which the models of a family write what they think before they answer. The texts in a chat template show
 * whether its model thinks, and the end of a prompt shows whether thinking has begun or ended there (docs/thinking.md).
 */
export interface ThinkingFormat {
  readonly begin: string;
  readonly end: string;
  /** The member of an assistant message in which the template looks for what was thought; undefined: none. */
  readonly member: 'reasoning_content' | 'thinking' | undefined;
  /** Present if each part of an answer is a message with a header, which control tokens mark. */
  readonly channels?: ChannelFormat;
}

export interface ChannelFormat {
  /** The control tokens that the family's parser sees. */
  readonly marks: readonly string[];
  /** What ends a message and begins the next one's header. */
  readonly messageEnd: string;
  /** The rest of the header of the answer's text. */
  readonly answerBegin: string;
  /** What the template knows in place of these efforts. */
  readonly efforts: Readonly<Record<string, string>>;
}

const begin = '<think>';
const end = '</think>';

/** Undefined: the model of the template does not think, or marks its thinking in a way that is not known here. */
export function thinkingOf(templateSource: string): ThinkingFormat | undefined {
  if (!templateSource.includes(end)) return undefined;
  return { begin, end, member: memberOf(templateSource) };
}

/** The member that the template reads, whatever its marks are. */
function memberOf(templateSource: string): ThinkingFormat['member'] {
  if (/\breasoning_content\b/.test(templateSource)) return 'reasoning_content';
  return /\bmessage\.thinking\b|\[['"]thinking['"]\]/.test(templateSource) ? 'thinking' : undefined;
}

/**
 * What the end of a prompt means for the answer. open: the answer thinks from its first token on. closed: it does not think.
 * free: it thinks if it begins with the mark.
 */
type PromptEnd = 'open' | 'closed' | 'free';

/** tail: the end of the prompt; at least as long as both marks with the white space around them. */
export function promptEndOf(format: ThinkingFormat, tail: string): PromptEnd {
  const said = tail.trimEnd();
  if (said.endsWith(format.begin)) return 'open';
  return said.endsWith(format.end) ? 'closed' : 'free';
}
