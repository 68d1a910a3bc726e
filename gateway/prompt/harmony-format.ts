import type { ThinkingFormat } from './thinking-format.ts';
import type { ToolCallFormat } from './tool-call-format.ts';

/**
 * Harmony, in which the models of gpt-oss answer: messages, each with a header that names its channel and whom it is for.
 * generation/harmony-parser.ts reads them, and calls/harmony-grammar.ts constrains them.
 */

/** The control tokens that messages are written with. */
export const harmonyMarks = {
  start: '<|start|>',
  channel: '<|channel|>',
  constrain: '<|constrain|>',
  message: '<|message|>',
  end: '<|end|>',
  return: '<|return|>',
  call: '<|call|>',
} as const;

const literals = Object.values(harmonyMarks);

export function isHarmony(templateSource: string): boolean {
  return ['<|start|>assistant', '<|channel|>analysis<|message|>', '<|channel|>final<|message|>'].every(
    (text) => templateSource.includes(text),
  );
}

const messageEnd = '<|end|><|start|>assistant';
const answerBegin = '<|channel|>final<|message|>';

export const harmonyThinking: ThinkingFormat = {
  begin: '<|channel|>analysis<|message|>',
  end: messageEnd + answerBegin,
  member: 'thinking',
  channels: {
    marks: literals,
    ...{ messageEnd, answerBegin },
    efforts: { none: 'low', minimal: 'low', xhigh: 'high', max: 'high' },
  },
};

/** A half of a surrogate pair is in no decoded text: see markOf(). */
const sign = '\ud800';

/** Calls as harmony-parser.ts writes them anew for tool-call-parser.ts: their name, then their arguments. */
export const harmonyFormat: ToolCallFormat = {
  name: 'harmony',
  trigger: sign,
  begin: sign,
  between: sign + sign,
  end: '',
  separator: '',
  marks: literals,
};
