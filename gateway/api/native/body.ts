import type { Context } from 'hono';
import { JSON_TYPE, parseJson, requireMediaType } from '../json.ts';
import { MSGPACK_TYPE, unpackMsgpack } from '../msgpack.ts';

/** The body of a native request, in either encoding; both say the same. */
export async function readBody(c: Context): Promise<unknown> {
  const type = requireMediaType(c, [JSON_TYPE, MSGPACK_TYPE]);
  if (type === JSON_TYPE) return parseJson(await c.req.text());
  return unpackMsgpack(new Uint8Array(await c.req.arrayBuffer()));
}
