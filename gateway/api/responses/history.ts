import type { Context, Handler } from 'hono';
import * as z from 'zod';
import { openAnswer, requireJournal, stageOf } from '../../calls/kept-answer.ts';
import { ApiError, shown, unsupported } from '../../errors/api-error.ts';
import type { DurableJob } from '../../jobs/job.ts';
import { asList, asObject, memberOf } from '../../json/json-values.ts';
import { callersOf } from '../../server/guard/caller.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { parseJson } from '../json.ts';
import { type Item, itemsOf } from './request.ts';
import { type ResponseJson, responseOfItem } from './response.ts';
import { RESPONSES_PATH, responses } from './responses.ts';

/** What was said up to responses that the journal keeps: requests continue it, and clients list it. */

/** The response, if this caller has one with this id. */
export async function findResponse(
  c: Context,
  { jobs }: Pick<RouteDeps, 'jobs'>,
  id: string,
): Promise<DurableJob | undefined> {
  const durable = await jobs.open(callersOf(c), id);
  return durable?.record.route === RESPONSES_PATH ? durable : undefined;
}

/**
 * The conversation that a body continues: what was said up to its previous response, and the output of that; nothing if it continues
 * none. Each response has the whole conversation, so those before it may be gone. Throws a 400 or 409 for one that cannot be
 * continued, and what openAnswer throws.
 */
export async function earlierItems(c: Context, deps: RouteDeps, body: unknown): Promise<readonly Item[]> {
  const id = memberOf(body, PREVIOUS);
  if (typeof id !== 'string') return [];
  requireJournal(deps.jobs, PREVIOUS, shown(id));
  const durable = await findResponse(c, deps, id);
  const history = durable?.record.history;
  if (durable === undefined || history === undefined) throw notFound(id);
  const { status, output } = await responseOf(deps, durable);
  if (status === 'in_progress') throw inProgress(id);
  if (status !== 'completed') throw notCompleted(id, status);
  return itemsOf([...(JSON.parse(history) as ItemList['data']), ...output]);
}

const PREVIOUS = 'previous_response_id';

/** Without its receipt, which cannot be made at all times. Throws what openAnswer throws. */
async function responseOf(deps: RouteDeps, durable: DurableJob): Promise<ResponseJson> {
  const opened = await openAnswer(deps, durable, (kept) => responses.parse(parseJson(kept)));
  const { receipt: _notNow, ...record } = opened.record;
  return JSON.parse(await stageOf({ ...opened, record })) as ResponseJson;
}

/** The most responses in which the items are looked for that one body refers to. */
const MAX_LOOKED_IN = 64;

/**
 * The body with the items themselves in place of references to them. Vercel's AI SDK refers to what earlier responses have answered. The
 * newest one is opened first, since it has the whole conversation before it, too. Throws a 400 for an item that is not kept, and
 * what openAnswer throws.
 */
export async function withReferenced(c: Context, deps: RouteDeps, body: unknown): Promise<unknown> {
  const input = asList(memberOf(body, 'input'));
  const references = input.flatMap((each, index) => (isReference(each) ? [{ id: idOf(each), index }] : []));
  if (references.length === 0) return body;
  requireJournal(deps.jobs, 'item_reference');
  const kept = new Map<string, unknown>();
  let numLookedIn = 0;
  for (const { id, index } of references.reverse()) {
    const response = kept.has(id) || numLookedIn === MAX_LOOKED_IN ? undefined : responseOfItem(id);
    const durable = response === undefined ? undefined : await findResponse(c, deps, response);
    if (durable !== undefined) {
      numLookedIn += 1;
      const history = JSON.parse(durable.record.history ?? '[]') as ItemList['data'];
      for (const each of [...history, ...(await responseOf(deps, durable)).output])
        kept.set(idOf(each), each);
    }
    if (!kept.has(id)) throw itemNotFound(id, index);
  }
  return { ...asObject(body), input: input.map((each) => (isReference(each) ? kept.get(idOf(each)) : each)) };
}

function isReference(each: unknown): boolean {
  return memberOf(each, 'type') === 'item_reference';
}

function idOf(each: unknown): string {
  return String(memberOf(each, 'id'));
}

function itemNotFound(id: string, index: number): ApiError {
  const message = `Item with id '${shown(id)}' not found: its response was not stored, was deleted, belongs to another key, its retention time is over, or the body refers to items of more than ${MAX_LOOKED_IN} responses; send the item itself`;
  return new ApiError({ status: 400, code: 'item_not_found', message, param: `input.${index}.id` });
}

/** Begins with OpenAI's sentence. */
function notFound(id: string): ApiError {
  const message = `Previous response with id '${shown(id)}' not found: it was not stored, was deleted, belongs to another key, or its retention time is over; send the conversation in input`;
  return new ApiError({ status: 400, code: 'previous_response_not_found', message, param: PREVIOUS });
}

function inProgress(id: string): ApiError {
  const message = `Previous response with id '${shown(id)}' is in progress; send the request again when it is completed`;
  const options = { status: 409, code: 'previous_response_in_progress', message, param: PREVIOUS } as const;
  return new ApiError({ ...options, retriable: true, retryAfterSec: 1 });
}

function notCompleted(id: string, status: string): ApiError {
  const message = `Previous response with id '${shown(id)}' is ${status}, and only completed ones can be continued; send the conversation in input`;
  return new ApiError({ status: 400, code: 'previous_response_not_completed', message, param: PREVIOUS });
}

const MAX_LISTED = 100;
const LISTED = 20;

export const itemListSchema = z
  .object({
    object: z.literal('list'),
    data: z.array(z.looseObject({ id: z.string(), type: z.string() })),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  })
  .meta({ title: 'ResponseItemList' });
type ItemList = z.infer<typeof itemListSchema>;

/** Lists the items that the response answers, those that it continues included. find: throws if there is no such response. */
export function listing(
  find: (c: Context, deps: RouteDeps) => Promise<DurableJob>,
): (deps: RouteDeps) => Handler {
  return (deps) => async (c) => {
    const { history = '[]' } = (await find(c, deps)).record;
    const items = JSON.parse(history) as ItemList['data'];
    const { limit, isAscending, after } = listQuery(c.req.query());
    const ordered = isAscending ? items : items.reverse();
    const begin = after === undefined ? 0 : ordered.findIndex(({ id }) => id === after) + 1;
    if (after !== undefined && begin === 0)
      throw unsupported('after', `after must be the id of an item of this response (got ${shown(after)})`);
    const data = ordered.slice(begin, begin + limit);
    return c.json({
      object: 'list',
      data,
      first_id: data[0]?.id ?? null,
      last_id: data.at(-1)?.id ?? null,
      has_more: begin + limit < ordered.length,
    } satisfies ItemList);
  };
}

/** No item has what `include` names. */
const LIST_QUERY = ['limit', 'order', 'after', 'include', 'include[]'];

export function requireKnownQuery(query: Readonly<Record<string, string>>, known: readonly string[]): void {
  const unknown = Object.keys(query).find((name) => !known.includes(name));
  if (unknown === undefined) return;
  throw unsupported(shown(unknown), `${shown(unknown)} is not supported; leave it out`);
}

/** Throws a 400 for a parameter that cannot be obeyed. */
function listQuery(query: Readonly<Record<string, string>>) {
  requireKnownQuery(query, LIST_QUERY);
  const { limit = String(LISTED), order = 'desc', after } = query;
  if (!/^\d{1,3}$/.test(limit) || Number(limit) < 1 || Number(limit) > MAX_LISTED)
    throw unsupported('limit', `limit must be from 1 to ${MAX_LISTED} (got ${shown(limit)})`);
  if (order !== 'asc' && order !== 'desc')
    throw unsupported('order', `order must be "asc" or "desc" (got ${JSON.stringify(shown(order))})`);
  return { limit: Number(limit), isAscending: order === 'asc', after };
}
