/** Reads how text becomes words with the model Unigram: the normalizer and the pre-tokenizer of a tokenizer.json. */
import * as z from 'zod';
import { charsmapOf } from '../charsmap.ts';
import { type Charsmap, spaceMark, type TextChange, TokenizerError, type UnigramForm } from '../tables.ts';
import { checked, type PartJson, partsOf, type TokenizerJson, unsupported } from './schema.ts';

const precompiled = z.object({ precompiled_charsmap: z.base64() });
const strip = z.object({ strip_left: z.boolean(), strip_right: z.boolean() });
const replace = z.object({
  pattern: z.union([
    z.strictObject({ String: z.string().min(1) }),
    z.strictObject({ Regex: z.literal(' {2,}', 'only " {2,}" is supported') }),
  ]),
  content: z.string(),
});
/** Each takes time linear in the text. */
const normalizersMax = 16;
const metaspace = z.object({
  replacement: z.literal(spaceMark),
  prepend_scheme: z.enum(['always', 'first', 'never']).default('always'),
  add_prefix_space: z.boolean().optional(),
  split: z.boolean().nullish(),
});

export function unigramFormOf({
  normalizer,
  pre_tokenizer,
}: TokenizerJson): Omit<UnigramForm, 'scores' | 'unknownScore'> {
  const { changes, charsmap } = changesOf(normalizer);
  const parts = partsOf(pre_tokenizer, 'pretokenizers', 'pre-tokenizer');
  const last = parts.at(-1);
  const [first] = parts;
  const hasWords = parts.length === 2 && first?.type === 'WhitespaceSplit';
  if (last?.type !== 'Metaspace' || (parts.length > 1 && !hasWords)) {
    const given = parts.map(({ type }) => type.slice(0, 80)).join(', ') || 'null';
    throw new TokenizerError(
      `its tokenizer has the pre-tokenizer ${JSON.stringify(given)}; with the model Unigram only Metaspace, and WhitespaceSplit with Metaspace, are supported`,
    );
  }
  const { prepend_scheme, add_prefix_space, split } = checked(metaspace, last, 'its pre-tokenizer Metaspace');
  const scheme = add_prefix_space === false ? 'never' : prepend_scheme;
  if (hasWords && scheme !== 'always')
    throw new TokenizerError(
      `its pre-tokenizer Metaspace has the prepend_scheme ${JSON.stringify(scheme)}, which is not supported behind WhitespaceSplit; supported: "always"`,
    );
  return {
    kind: 'unigram',
    changes: hasWords ? [...changes, { kind: 'words' }] : changes,
    charsmap,
    spacePrefix:
      scheme === 'never' ? 'never' : scheme === 'first' ? 'first-unless-space' : 'always-unless-space',
    splits: split !== false,
  };
}

function changesOf(json: PartJson | null | undefined): Pick<UnigramForm, 'changes' | 'charsmap'> {
  const changes: TextChange[] = [];
  let charsmap: Charsmap | undefined;
  const parts = partsOf(json, 'normalizers', 'normalizer');
  if (parts.length > normalizersMax)
    throw new TokenizerError(
      `its normalizer has ${parts.length} parts; at most ${normalizersMax} are supported`,
    );
  for (const part of parts) {
    const what = `its normalizer ${part.type}`;
    switch (part.type) {
      case 'Precompiled':
        if (charsmap !== undefined)
          throw new TokenizerError('its normalizer has Precompiled twice, which is not supported');
        charsmap = charsmapOf(Buffer.from(checked(precompiled, part, what).precompiled_charsmap, 'base64'));
        changes.push({ kind: 'charsmap' });
        break;
      case 'Strip': {
        const { strip_left, strip_right } = checked(strip, part, what);
        changes.push({ kind: 'strip', left: strip_left, right: strip_right });
        break;
      }
      case 'Replace': {
        const { pattern, content } = checked(replace, part, what);
        // So a text does not grow, however many of these there are.
        const shortest = 'Regex' in pattern ? 2 : pattern.String.length;
        if (content.length > shortest)
          throw new TokenizerError(`${what} replaces a text with a longer one, which is not supported`);
        changes.push(
          'Regex' in pattern
            ? { kind: 'spaces', to: content }
            : { kind: 'replace', from: pattern.String, to: content },
        );
        break;
      }
      default:
        throw unsupported('normalizer', part.type, ['Precompiled', 'Replace', 'Strip', 'Sequence']);
    }
  }
  return { changes, charsmap };
}
