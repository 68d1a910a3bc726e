import { unsupported } from '../errors/api-error.ts';
import type { Model } from '../models/model.ts';
import type { RenderOptions } from '../prompt/chat-template.ts';
import type { Tokenizer } from '../tokenizer/tokenizer.ts';
import { type ContextLimit, encodePrompts, type PromptIds, requireIds } from './prompt.ts';

/** Prompts with a gap between a text and a suffix, which models that were trained for it fill in ("fill in the middle"). */

type Marks = readonly [text: number, suffix: number, gap: number];

/** What models call the tokens in front of the text, of the suffix and of what fills the gap. */
const LITERALS = [
  // Qwen2.5-Coder, CodeGemma.
  ['<|fim_prefix|>', '<|fim_suffix|>', '<|fim_middle|>'],
  // StarCoder, Granite.
  ['<fim_prefix>', '<fim_suffix>', '<fim_middle>'],
  // DeepSeek-Coder.
  ['<｜fim▁begin｜>', '<｜fim▁hole｜>', '<｜fim▁end｜>'],
] as const;

/** Undefined if the vocabulary has none that are known here. */
export function infillMarks(tokenizer: Tokenizer): Marks | undefined {
  for (const literals of LITERALS) {
    const ids = literals.map((literal) =>
      tokenizer.encode(literal, { addSpecial: false, parseSpecial: true }),
    );
    if (ids.every(({ length }) => length === 1)) return ids.flat() as unknown as Marks;
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
