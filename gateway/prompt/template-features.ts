/** What the source of a chat template shows of its model. It is called by the model's reader: see model-reader.ts. */

import { harmonyFormat, harmonyThinking, isHarmony } from './harmony-format.ts';
import { tokensOf } from './jinja/lexer.ts';
import { StatementParser } from './jinja/statement-parser.ts';
import { JinjaError } from './jinja/values.ts';
import { type ThinkingFormat, thinkingOf } from './thinking-format.ts';
import { type ToolCallFormat, toolUseOf } from './tool-call-format.ts';

/** What the texts in a chat template show of the answers of its model. */
export interface TemplateMarks {
  /** How the model writes calls of tools; undefined if its template has them written in an unknown way. */
  readonly toolUse: ToolCallFormat | undefined;
  /** How the model marks its thinking; undefined if it does not think, or marks it in an unknown way. */
  readonly thinking: ThinkingFormat | undefined;
}

export function marksIn(templateSource: string): TemplateMarks {
  if (isHarmony(templateSource)) return { toolUse: harmonyFormat, thinking: harmonyThinking };
  return { toolUse: toolUseOf(templateSource), thinking: thinkingOf(templateSource) };
}

/** The words of each feature. A template with one of these words has the feature. */
const features = {
  system: ['system'],
  tools: ['tools'],
  tool_calls: ['tool_calls'],
  tool_results: ['tool', 'tool_results', 'ipython'],
  thinking: ['reasoning_content', 'enable_thinking', 'thinking', '</think>'],
  images: ['image', 'image_url'],
  generation_prompt: ['add_generation_prompt'],
} as const;

type TemplateFeature = keyof typeof features;

export interface TemplateFacts {
  readonly features: readonly TemplateFeature[];
  /** Why the template cannot be used, as a sentence; null if it can be parsed. */
  readonly fault: string | null;
}

/** Guesses what the template can do with a conversation from the names and texts in its source. */
export function templateFacts(source: string): TemplateFacts {
  let words: ReadonlySet<string>;
  try {
    const tokens = tokensOf(source);
    new StatementParser(tokens).template();
    words = new Set(tokens.map(({ text }) => text.trim()));
  } catch (error) {
    if (error instanceof JinjaError) return { features: [], fault: `It cannot be parsed: ${error.message}.` };
    if (error instanceof RangeError) return { features: [], fault: 'It nests too deep.' };
    throw error;
  }
  const has = (feature: TemplateFeature) => features[feature].some((word) => words.has(word));
  return { features: (Object.keys(features) as TemplateFeature[]).filter(has), fault: null };
}
