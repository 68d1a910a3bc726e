import type { Thinking } from '../generation/thinking-parser.ts';
import type { Grammar } from '../runner/runner.ts';
import { formatOfGrammar } from './grammar-format.ts';
import { structuralTag } from './structural-tag.ts';

/** Line breaks between the mark that ends the thinking and the answer. */
const breaks = { type: 'regex', pattern: '\\n{0,2}' };

/** A grammar that holds behind what is thought, as a structural tag of XGrammar: what is thought may be anything. */
export function grammarBehindThinking(grammar: Grammar, { format, isOpen }: Thinking): Grammar {
  const answer = formatOfGrammar(grammar);
  const begin = isOpen ? '' : format.begin;
  const thought = { type: 'tag', begin, content: { type: 'any_text' }, end: format.end };
  const thoughtful = { type: 'sequence', elements: [thought, breaks, answer] };
  // A prompt that leaves it to the model gets an answer with or without.
  const whole = isOpen ? thoughtful : { type: 'or', elements: [thoughtful, answer] };
  return structuralTag(whole);
}
