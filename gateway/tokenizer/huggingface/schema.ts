/**
 * The schema of a tokenizer.json. Parts of unknown types are refused by name: a tokenizer that is almost right gives ids that
 * the model has never seen.
 */
import * as z from 'zod';
import { TokenizerError } from '../tables.ts';
import { wordCharsMax } from '../wordpiece.ts';

const addedToken = z.object({
  id: z.int().min(0),
  content: z.string(),
  single_word: z.boolean().default(false),
  lstrip: z.boolean().default(false),
  rstrip: z.boolean().default(false),
  normalized: z.boolean().default(true),
  special: z.boolean().default(false),
});

/** A part with its type and any other fields. */
const part = z.looseObject({ type: z.string() });

const noAffix = z.union([z.null(), z.literal('')]).optional();

// These have hundreds of thousands of entries, which are checked one by one where they are used.
const vocab = z.custom<Readonly<Record<string, unknown>>>(isRecord, 'an object is expected');
const bpe = z.object({
  type: z.literal('BPE').default('BPE'),
  dropout: z.null().optional(),
  unk_token: z.string().nullish(),
  continuing_subword_prefix: noAffix,
  end_of_word_suffix: noAffix,
  byte_fallback: z.boolean().nullish(),
  ignore_merges: z.boolean().nullish(),
  vocab,
  merges: z.custom<readonly unknown[]>(Array.isArray, 'an array is expected'),
});

const wordPiece = z.object({
  type: z.literal('WordPiece'),
  unk_token: z.string(),
  continuing_subword_prefix: z.literal('##', 'only "##" is supported'),
  max_input_chars_per_word: z.literal(wordCharsMax, `only ${wordCharsMax} is supported`),
  vocab,
});

const unigram = z.object({
  type: z.literal('Unigram'),
  unk_id: z.int().min(0),
  byte_fallback: z.boolean().nullish(),
  vocab: z.custom<readonly unknown[]>(Array.isArray, 'an array is expected'),
});

const file = z.object({
  added_tokens: z.array(addedToken).default([]),
  normalizer: part.nullish(),
  pre_tokenizer: part.nullish(),
  post_processor: part.nullish(),
  decoder: part.nullish(),
  model: z.looseObject({ type: z.string().optional() }),
});

export type AddedTokenJson = z.output<typeof addedToken>;
export type PartJson = z.output<typeof part>;
type ModelJson = z.output<typeof bpe> | z.output<typeof wordPiece> | z.output<typeof unigram>;
const models = { BPE: bpe, WordPiece: wordPiece, Unigram: unigram } as const;
export type TokenizerJson = Omit<z.output<typeof file>, 'model'> & { readonly model: ModelJson };

/** Throws TokenizerError if something is missing or of another type. */
export function parseTokenizerJson(value: unknown): TokenizerJson {
  const { model, ...rest } = checked(file, value, 'its tokenizer.json');
  const type = model.type ?? 'BPE';
  if (type !== 'BPE' && type !== 'WordPiece' && type !== 'Unigram')
    throw unsupported('model', type, Object.keys(models));
  return { ...rest, model: checked<z.ZodType<ModelJson>>(models[type], model, "its tokenizer's model") };
}

/**
 * Returns the value as the schema parses it. Throws TokenizerError with the first fault. what: the value's name for the
 * message.
 */
export function checked<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  what: string,
): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  const path = issue?.path.join('.') ?? '';
  throw new TokenizerError(`${what} is not valid${path && ` at ${path}`}: ${issue?.message}`);
}

/** Returns the parts of a Sequence, or the part itself, or nothing for null. */
export function partsOf(json: PartJson | null | undefined, key: string, what: string): readonly PartJson[] {
  if (json === null || json === undefined) return [];
  if (json.type !== 'Sequence') return [json];
  return checked(z.object({ [key]: z.array(part) }), json, `its ${what}`)[key] ?? [];
}

export function unsupported(what: string, type: string, known: readonly string[]): TokenizerError {
  return new TokenizerError(
    `its tokenizer has a ${what} of the type ${JSON.stringify(type.slice(0, 80))}; supported: ${known.join(', ')}`,
  );
}

function isRecord(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A value of a file, shortened for messages. */
export function shown(value: unknown): string {
  return (JSON.stringify(value) ?? String(value)).slice(0, 80);
}
