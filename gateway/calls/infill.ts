import { unsupported } from '../errors/api-error.ts';
import type { Model } from '../models/model.ts';
import type { RenderOptions } from '../prompt/chat-template.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { type ContextLimit, encodePrompts, type PromptIds, requireIds } from './prompt.ts';

/** Prompts with a gap between a text and a suffix, which models that were trained for it fill in ("fill in the middle"). */

type Marks = readonly [text: number, suffix: number, gap: number];

/** What models call these tokens, and those that say that something else begins after what fills the gap. */
const FAMILIES = [
  // Qwen2.5-Coder, CodeGemma.
  {
    marks: ['<|fim_prefix|>', '<|fim_suffix|>', '<|fim_middle|>'],
    ends: ['<|fim_pad|>', '<|repo_name|>', '<|file_sep|>', '<|file_separator|>'],
  },
  // StarCoder, Granite.
  {
    marks: ['<fim_prefix>', '<fim_suffix>', '<fim_middle>'],
    ends: ['<fim_pad>', '<repo_name>', '<file_sep>', '<reponame>', '<filename>'],
  },
  // DeepSeek-Coder.
  { marks: ['<｜fim▁begin｜>', '<｜fim▁hole｜>', '<｜fim▁end｜>'], ends: [] },
] as const;

/** Undefined if the vocabulary has none that are known here. */
export function infillMarks(tokenizer: Tokenizer): Marks | undefined {
  return familyOf(tokenizer)?.marks;
}

/** The tokens that end what fills a gap, beside those that end any answer. No answer shows them. */
export function infillEnds(tokenizer: Tokenizer): readonly number[] {
  const { marks = [], ends = [] } = familyOf(tokenizer) ?? {};
  return [...marks, ...ends];
}

function familyOf(tokenizer: Tokenizer): { readonly marks: Marks; readonly ends: number[] } | undefined {
  /** The tokens that the vocabulary has. */
  const idsOf = (literals: readonly string[]): number[] =>
    literals
      .map((literal) => tokenizer.encode(literal, { addSpecial: false, parseSpecial: true }))
      .flatMap((ids) => (ids.length === 1 ? ids : []));
  for (const { marks, ends } of FAMILIES) {
    const ids = idsOf(marks);
    if (ids.length === marks.length) return { marks: ids as unknown as Marks, ends: idsOf(ends) };
  }
  return undefined;
}

/** The ids of each prompt with the suffix behind its gap, as encodePrompts() gives them. Throws a 400 that names `suffix`. */
export async function encodeWithGap(
  prompts: readonly (string | readonly number[])[],
  suffix: string,
  model: Model,
  limit: ContextLimit,
  asker: Pick<RenderOptions, 'signal' | 'caller'>,
): Promise<readonly PromptIds[]> {
  const { tokenizer } = model;
  const marks = infillMarks(tokenizer);
  if (marks === undefined)
    throw unsupported(
      'suffix',
      'suffix is not supported by this model: its vocabulary has no tokens for a gap to fill in',
    );
  const encoded = await encodePrompts([...prompts, suffix], model, limit, { ...asker, addSpecial: false });
  // The first prompt that is too long is the last one that was encoded.
  if (encoded.length <= prompts.length) return encoded;
  const behind = requireIds(encoded.at(-1), limit, 'suffix');
  const [textMark, suffixMark, gapMark] = marks;
  const begin = tokenizer.encode('', { addSpecial: true, parseSpecial: false });
  const start = begin.filter((id) => id === tokenizer.bosId);
  return encoded.slice(0, -1).map((ids) => {
    if ('leastTokens' in ids) return ids;
    return [...start, textMark, ...ids, suffixMark, ...behind, gapMark];
  });
}
