// Not 'msgpackr': that one loads a native add-on, in which a hostile body could take the whole gateway along.
import { Packr, Unpackr } from 'msgpackr/pack';
import { invalidBody } from './json.ts';
import { msgpackFault } from './msgpack-check.ts';

/**
 * MessagePack, as far as it says what JSON says: no extensions, no records. Integers beyond 2^53 are bigint both ways.
 * The library recurses and reserves memory by what a message claims, so that a message is walked before it is unpacked.
 */

export const MSGPACK_TYPE = 'application/x-msgpack';

const packr = new Packr({ useRecords: false, variableMapSize: true });
// 'auto', a bigint only where a number would round, is missing from the library's types.
const unpackr = new Unpackr({ useRecords: false, mapsAsObjects: true, int64AsType: 'auto' as 'bigint' });

/** One self-delimited object: a reader knows where it ends, so a stream is nothing but one behind the other. */
export function packMsgpack(value: object): Uint8Array {
  return packr.pack(value);
}

/** The value, or a 400 that says what is wrong with the bytes. */
export function unpackMsgpack(bytes: Uint8Array): unknown {
  const fault = msgpackFault(bytes);
  if (fault !== undefined)
    throw invalidBody('msgpack', `The body is not a MessagePack value this endpoint reads: ${fault}.`);
  return unpackr.unpack(bytes);
}
