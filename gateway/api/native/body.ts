import type { Context } from 'hono';
import { inOneStep, longWork } from '../../ops/long-work.ts';
import { JSON_TYPE, readJsonText, requireMediaType } from '../json.ts';
import { MSGPACK_TYPE, unpackMsgpack } from '../msgpack.ts';

/** The body of a native request, in either encoding; both say the same. */
export async function readBody(c: Context): Promise<unknown> {
  const type = requireMediaType(c, [JSON_TYPE, MSGPACK_TYPE]);
  if (type === JSON_TYPE) return readJsonText(c);
  const bytes = new Uint8Array(await c.req.arrayBuffer());
  return longWork.run(
    bytes.length,
    inOneStep(() => unpackMsgpack(bytes)),
    c.req.raw.signal,
  );
}
