/** Reads how text becomes words: the normalizer and the pre-tokenizer of a tokenizer.json. */
import * as z from 'zod';
import { type ExpressionName, expressionNamed } from '../pre-tokenizers/expressions.ts';
import type { Stage } from '../pre-tokenizers/word-splitter.ts';
import {
  type ByteLevelForm,
  type PairTemplate,
  type SentencePieceForm,
  spaceMark,
  TokenizerError,
  type UnigramForm,
  type WordPieceForm,
} from '../tables.ts';
import { checked, type PartJson, partsOf, shown, type TokenizerJson, unsupported } from './schema.ts';
import { unigramFormOf } from './unigram-form.ts';

export interface TextForm {
  readonly form:
    | ByteLevelForm
    | Omit<SentencePieceForm, 'crossings'>
    | WordPieceForm
    | Omit<UnigramForm, 'scores' | 'unknownScore'>;
  readonly isNfc: boolean;
}

interface Normalizer {
  readonly isNfc: boolean;
  readonly prepends: boolean;
  readonly marksSpaces: boolean;
}

const pattern = z.union([z.strictObject({ Regex: z.string() }), z.strictObject({ String: z.string() })]);
const split = z.object({ pattern, behavior: z.string(), invert: z.boolean().default(false) });
const byteLevel = z.object({
  add_prefix_space: z.literal(false, 'true is not supported'),
  use_regex: z.boolean().default(true),
});
const metaspace = z.object({
  replacement: z.literal(spaceMark),
  prepend_scheme: z.enum(['always', 'first', 'never']).default('always'),
  add_prefix_space: z.boolean().optional(),
  split: z.literal(false, 'true is not supported'),
});
const digits = z.object({ individual_digits: z.boolean() });
/** Expressions whose matches cover every text, so that it makes no difference what happens to the rest. */
const leaveNothing: ReadonlySet<ExpressionName> = new Set(['gpt2', 'llama3', 'qwen2', 'gpt4o', 'tekken']);

export function formOf(file: TokenizerJson): TextForm {
  const { normalizer, pre_tokenizer, model } = file;
  if (model.type === 'WordPiece') return { form: wordPieceFormOf(file), isNfc: false };
  if (model.type === 'Unigram') return { form: unigramFormOf(file), isNfc: false };
  const normal = normalizerOf(normalizer);
  const parts = partsOf(pre_tokenizer, 'pretokenizers', 'pre-tokenizer');
  const ignoreMerges = model.ignore_merges === true;
  const isNfc = normal.isNfc;
  if (parts.at(-1)?.type === 'ByteLevel') {
    if (normal.prepends || normal.marksSpaces)
      throw new TokenizerError(
        `its normalizer writes spaces as ${JSON.stringify(spaceMark)}, but its pre-tokenizer is ByteLevel; the two together are not supported`,
      );
    return { form: { kind: 'byte-level', stages: stagesOf(parts), ignoreMerges }, isNfc };
  }
  if (model.byte_fallback !== true) {
    throw new TokenizerError(
      'its tokenizer has neither a pre-tokenizer that ends in ByteLevel nor byte_fallback; one of them is needed',
    );
  }
  return { form: { kind: 'sentencepiece', spacePrefix: spacePrefixOf(normal, parts), ignoreMerges }, isNfc };
}

const bertNormalizer = z.object({
  clean_text: z.boolean(),
  handle_chinese_chars: z.boolean(),
  strip_accents: z.boolean().nullable(),
  lowercase: z.boolean(),
});
const wordPieceDecoder = z.object({ prefix: z.literal('##', 'only "##" is supported') });

function wordPieceFormOf({ normalizer, pre_tokenizer, decoder }: TokenizerJson): WordPieceForm {
  const part = onlyPart(normalizer, 'normalizers', 'normalizer', 'BertNormalizer');
  onlyPart(pre_tokenizer, 'pretokenizers', 'pre-tokenizer', 'BertPreTokenizer');
  const decoding = onlyPart(decoder, 'decoders', 'decoder', 'WordPiece');
  checked(wordPieceDecoder, decoding, 'its decoder WordPiece');
  const rules = checked(bertNormalizer, part, 'its normalizer BertNormalizer');
  return {
    kind: 'wordpiece',
    cleans: rules.clean_text,
    isolatesHan: rules.handle_chinese_chars,
    stripsAccents: rules.strip_accents ?? rules.lowercase,
    lowers: rules.lowercase,
  };
}

/** The only part. Throws if there are others, or one of another type. */
function onlyPart(json: PartJson | null | undefined, key: string, what: string, type: string): PartJson {
  const parts = partsOf(json, key, what);
  const [part] = parts;
  if (part !== undefined && parts.length === 1 && part.type === type) return part;
  const given = parts.map((each) => shown(each.type)).join(', ') || 'null';
  throw new TokenizerError(
    `its tokenizer has the ${what} ${given}; with the model WordPiece only ${type} is supported`,
  );
}

function normalizerOf(json: PartJson | null | undefined): Normalizer {
  let normal: Normalizer = { isNfc: false, prepends: false, marksSpaces: false };
  for (const part of partsOf(json, 'normalizers', 'normalizer')) {
    switch (part.type) {
      case 'NFC':
        normal = { ...normal, isNfc: true };
        break;
      case 'Prepend':
        checked(z.object({ prepend: z.literal(spaceMark) }), part, 'its normalizer Prepend');
        normal = { ...normal, prepends: true };
        break;
      case 'Replace': {
        const spaces = z.strictObject({ String: z.literal(' ') });
        const rule = z.object({ pattern: spaces, content: z.literal(spaceMark) });
        checked(rule, part, 'its normalizer Replace');
        normal = { ...normal, marksSpaces: true };
        break;
      }
      default:
        throw unsupported('normalizer', part.type, ['NFC', 'Prepend', 'Replace', 'Sequence']);
    }
  }
  return normal;
}

function stagesOf(parts: readonly PartJson[]): Stage[] {
  return parts.flatMap((part, index): Stage[] => {
    switch (part.type) {
      case 'Split':
        return [stageOfSplit(part)];
      case 'Digits':
        return [checked(digits, part, 'its pre-tokenizer Digits').individual_digits ? 'digit' : 'digits'];
      case 'ByteLevel': {
        if (index !== parts.length - 1)
          throw new TokenizerError('its pre-tokenizer has a part after ByteLevel, which is not supported');
        const { use_regex } = checked(byteLevel, part, 'its pre-tokenizer ByteLevel');
        return use_regex ? ['gpt2'] : [];
      }
      default:
        throw unsupported('pre-tokenizer', part.type, [
          'Split',
          'Digits',
          'ByteLevel',
          'Metaspace',
          'Sequence',
        ]);
    }
  });
}

function stageOfSplit(part: PartJson): Stage {
  const { pattern, behavior, invert } = checked(split, part, 'its pre-tokenizer Split');
  const source = 'Regex' in pattern ? pattern.Regex : pattern.String;
  const name = 'Regex' in pattern ? expressionNamed(source) : undefined;
  if (name === undefined)
    throw new TokenizerError(
      `its pre-tokenizer splits by ${JSON.stringify(source.slice(0, 400))}, which is not supported`,
    );
  const keepsMatches = behavior === 'Removed' && invert && leaveNothing.has(name);
  if ((behavior !== 'Isolated' || invert) && !keepsMatches)
    throw new TokenizerError(
      `its pre-tokenizer splits with the behavior ${JSON.stringify(behavior.slice(0, 80))}${invert ? ', inverted' : ''}; supported: Isolated`,
    );
  return name;
}

function spacePrefixOf(normal: Normalizer, parts: readonly PartJson[]): SentencePieceForm['spacePrefix'] {
  const [part] = parts;
  if (parts.length > 1) throw unsupported('pre-tokenizer', 'Sequence', ['Metaspace', 'Split']);
  if (part?.type === 'Metaspace') {
    const { prepend_scheme, add_prefix_space } = checked(metaspace, part, 'its pre-tokenizer Metaspace');
    if (add_prefix_space === false || prepend_scheme === 'never') return 'never';
    return prepend_scheme === 'first' ? 'first-unless-space' : 'always-unless-space';
  }
  if (!normal.marksSpaces)
    throw new TokenizerError(
      `its tokenizer has neither a pre-tokenizer Metaspace nor a normalizer that replaces spaces with ${JSON.stringify(spaceMark)}; one of them is needed`,
    );
  // The normalizer has already replaced the spaces, so the split finds none, as in Gemma's file.
  if (part !== undefined) {
    const rule = checked(split, part, `its pre-tokenizer ${part.type}`);
    if (!('String' in rule.pattern) || rule.pattern.String !== ' ')
      throw unsupported('pre-tokenizer', part.type, ['Metaspace']);
  }
  return normal.prepends ? 'always' : 'never';
}

/** The token ids in front of a text and behind it, and those around a pair. */
interface Surroundings {
  readonly prefixIds: readonly number[];
  readonly suffixIds: readonly number[];
  readonly pair: PairTemplate | undefined;
}

const tokenAndId = z.tuple([z.string(), z.int().min(0)]);
/** BertProcessing and RobertaProcessing. */
const bertProcessing = z.object({ sep: tokenAndId, cls: tokenAndId });
const type_id = z.int().min(0).default(0);
const specialPiece = z.object({ SpecialToken: z.object({ id: z.string(), type_id }) });
const template = z.object({
  single: z.array(z.union([specialPiece, z.object({ Sequence: z.object({ id: z.literal('A') }) })])),
  pair: z
    .array(z.union([specialPiece, z.object({ Sequence: z.object({ id: z.enum(['A', 'B']), type_id }) })]))
    .optional(),
  special_tokens: z.record(z.string(), z.object({ ids: z.array(z.int().min(0)) })),
});

/** Reads the tokens that a tokenizer.json puts around a text. */
export function surroundingsOf(json: PartJson | null | undefined): Surroundings {
  let around: Surroundings = { prefixIds: [], suffixIds: [], pair: undefined };
  for (const part of partsOf(json, 'processors', 'post-processor')) {
    if (part.type === 'TemplateProcessing') around = fromTemplate(part);
    else if (part.type === 'BertProcessing' || part.type === 'RobertaProcessing') {
      const { cls, sep } = checked(bertProcessing, part, `its post-processor ${part.type}`);
      const ids = { prefixIds: [cls[1]], suffixIds: [sep[1]] };
      const isBert = part.type === 'BertProcessing';
      const betweenIds = isBert ? [sep[1]] : [sep[1], sep[1]];
      around = { ...ids, pair: { ...ids, betweenIds, hasTypes: isBert } };
    } else if (part.type !== 'ByteLevel')
      throw unsupported('post-processor', part.type, [
        'TemplateProcessing',
        'BertProcessing',
        'RobertaProcessing',
        'ByteLevel',
        'Sequence',
      ]);
  }
  return around;
}

function fromTemplate(part: PartJson): Surroundings {
  const { single, pair, special_tokens } = checked(template, part, 'its post-processor');
  const at = single.findIndex((piece) => 'Sequence' in piece);
  const idsOf = (pieces: readonly (PairPiece | (typeof single)[number])[]): number[] =>
    pieces.flatMap((piece) => {
      if (!('SpecialToken' in piece)) throw new TokenizerError('its post-processor contains the text twice');
      const token = special_tokens[piece.SpecialToken.id];
      if (token === undefined)
        throw new TokenizerError(
          `its post-processor names the special token ${JSON.stringify(piece.SpecialToken.id)}, but has no ids for it`,
        );
      return token.ids;
    });
  if (at < 0) throw new TokenizerError('its post-processor does not contain the text');
  return {
    prefixIds: idsOf(single.slice(0, at)),
    suffixIds: idsOf(single.slice(at + 1)),
    pair: pair && pairOf(pair, idsOf),
  };
}

type PairPiece = NonNullable<z.output<typeof template>['pair']>[number];

/** Undefined for a pair of another form: its texts in another order, or with tokens of the second type elsewhere. */
function pairOf(
  pieces: readonly PairPiece[],
  idsOf: (pieces: readonly PairPiece[]) => number[],
): PairTemplate | undefined {
  const placesOf = (id: string) =>
    pieces.flatMap((piece, index) => ('Sequence' in piece && piece.Sequence.id === id ? [index] : []));
  const [first = -1, ...others] = placesOf('A');
  const [second = -1, ...more] = placesOf('B');
  if (first < 0 || second < first || others.length + more.length > 0) return undefined;
  const types = pieces.map((piece) => ('Sequence' in piece ? piece.Sequence : piece.SpecialToken).type_id);
  const typeOfSecond = types[second] ?? 0;
  if (types.some((type, index) => type !== (index < second ? 0 : typeOfSecond)) || typeOfSecond > 1)
    return undefined;
  return {
    prefixIds: idsOf(pieces.slice(0, first)),
    betweenIds: idsOf(pieces.slice(first + 1, second)),
    suffixIds: idsOf(pieces.slice(second + 1)),
    hasTypes: typeOfSecond === 1,
  };
}
