import * as z from 'zod';
import { invalidField, shown, unsupported } from '../../errors/api-error.ts';

/** Lists as OpenAI's clients page through them. */

export function listSchema<Item extends z.ZodType>(item: Item, title: string) {
  return z
    .object({
      object: z.literal('list'),
      data: z.array(item),
      first_id: z.string().nullable(),
      last_id: z.string().nullable(),
      has_more: z.boolean(),
    })
    .meta({ title });
}

interface Page<Item> {
  readonly items: readonly Item[];
  readonly hasMore: boolean;
}

/** all: the newest first. Throws a 400 for a parameter that cannot be obeyed. */
export function pageOf<Item extends { readonly id: string }>(
  all: readonly Item[],
  { limit: limitText, after, order = 'desc', ...others }: Readonly<Record<string, string>>,
  { limit: usual, most }: { readonly limit: number; readonly most: number },
): Page<Item> {
  const [unknown] = Object.keys(others);
  if (unknown !== undefined)
    throw unsupported(shown(unknown), `${shown(unknown)} is not supported; leave it out`);
  const refuse = (field: string, rule: string, value: string) => {
    const message = `${field} must be ${rule} (got ${JSON.stringify(shown(value))})`;
    return invalidField({ field, constraint: 'query', message, value: shown(value) });
  };
  if (order !== 'asc' && order !== 'desc') throw refuse('order', 'asc or desc', order);
  const limit = limitText === undefined ? usual : Number(limitText);
  if (!Number.isInteger(limit) || limit < 1 || limit > most)
    throw refuse('limit', `1 to ${most}`, limitText ?? '');
  const ordered = order === 'desc' ? all : all.toReversed();
  const from = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && from === 0) throw refuse('after', 'the id of an item of the list', after);
  return { items: ordered.slice(from, from + limit), hasMore: ordered.length > from + limit };
}

export function listAnswer<Item extends { readonly id: string }, Shown>(
  { items, hasMore }: Page<Item>,
  described: (item: Item) => Shown,
) {
  return {
    object: 'list' as const,
    data: items.map(described),
    first_id: items[0]?.id ?? null,
    last_id: items.at(-1)?.id ?? null,
    has_more: hasMore,
  };
}
