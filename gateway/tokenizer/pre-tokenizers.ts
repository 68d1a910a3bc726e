/**
 * How text is cut into words before merging, by the name the model file gives (tokenizer.ggml.pre). Merges never cross
 * words, so a wrong cut gives ids that the model has never seen: a name that is not in the table is refused.
 *
 * Each expression matches any text completely, its matches one after the other, and backs up by one character at
 * most, so that time is linear in the text.
 */

// \s of other engines is Unicode's White_Space: U+0085 belongs to it and U+FEFF does not. JavaScript's \s is the other
// way round, so the class is written out.
const space = '\\t-\\r \\u0085\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000';
const contraction = "'s|'t|'re|'ve|'m|'ll|'d";

/** By name. The regular expressions are sticky-free and global; callers use matchAll, which copies their state. */
export const preTokenizers: ReadonlyMap<string, RegExp> = new Map([
  [
    'gpt-2',
    new RegExp(
      `${contraction}| ?\\p{L}+| ?\\p{N}+| ?[^${space}\\p{L}\\p{N}]+|[${space}]+(?![^${space}])|[${space}]+`,
      'gu',
    ),
  ],
  [
    // As gpt-2, after each digit has been set apart: space before a digit therefore ends a word, as at the end of text.
    'smollm',
    new RegExp(
      `${contraction}| ?\\p{L}+|\\p{N}| ?[^${space}\\p{L}\\p{N}]+|[${space}]+(?![^${space}\\p{N}])|[${space}]+`,
      'gu',
    ),
  ],
]);
