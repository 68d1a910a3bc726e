/** What a chat template can do with a conversation, told by the names and texts in it: whether it looks at a thing at all. */
import { JinjaError } from './jinja/jinja-error.ts';
import { parse } from './jinja/parser.ts';

/** Each with words of which one is in a template that has it. */
const features = {
  system: ['system'],
  tools: ['tools'],
  tool_calls: ['tool_calls'],
  tool_results: ['tool', 'tool_results', 'ipython'],
  thinking: ['reasoning_content', 'enable_thinking', 'thinking', '</think>'],
  images: ['image', 'image_url'],
  generation_prompt: ['add_generation_prompt'],
} as const;

export type TemplateFeature = keyof typeof features;

export interface TemplateFacts {
  readonly features: readonly TemplateFeature[];
  /** Why it renders nothing, as a sentence; null: it can be parsed. */
  readonly fault: string | null;
}

export function templateFacts(source: string): TemplateFacts {
  let words: ReadonlySet<string>;
  try {
    words = wordsOf(parse(source));
  } catch (error) {
    if (error instanceof JinjaError) return { features: [], fault: `It cannot be parsed: ${error.message}.` };
    if (error instanceof RangeError) return { features: [], fault: 'It nests too deep.' };
    throw error;
  }
  const has = (feature: TemplateFeature) => features[feature].some((word) => words.has(word));
  return { features: (Object.keys(features) as TemplateFeature[]).filter(has), fault: null };
}

/** All names, attributes and texts of a tree. */
function wordsOf(tree: unknown): ReadonlySet<string> {
  const words = new Set<string>();
  const left: unknown[] = [tree];
  while (left.length > 0) {
    const node = left.pop();
    if (typeof node === 'string') words.add(node.trim());
    else if (typeof node === 'object' && node !== null)
      for (const child of Object.values(node)) left.push(child);
  }
  return words;
}
