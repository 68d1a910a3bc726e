/**
 * Reads a recording, the file that `cpu-runner serve --record` writes (RecordEntry in proto/runner.proto), entry by entry.
 * Memory holds one chunk of the file and one entry, however long the file is.
 */
import { createReadStream } from 'node:fs';
import { snakeCase } from '../../system/printable.ts';
import { FrameDecoder, maxBytesToRunner, ProtocolError } from './frame.ts';
import { runner } from './proto/runner.js';

const { RecordEntry } = runner.v1;

/** An entry holds one message, the step, and the lengths of both. */
const maxEntryBytes = maxBytesToRunner + 64;

/** Plain values by the schema's field names in camelCase. Enumerations, 64-bit numbers and bytes (base64) are strings. */
export type Fields = Readonly<Record<string, unknown>>;

export interface RecordedEntry {
  /** Number of steps that were finished when the entry was written. */
  readonly step: string;
  /**
   * to_runner: a command, or the end of commands. from_runner: a frame of the runner. about: an entry about the recording
   * itself.
   */
  readonly direction: 'to_runner' | 'from_runner' | 'about';
  /** Name of the message's oneof member. */
  readonly name: string;
  readonly fields: Fields;
}

/**
 * Yields the entries. If the file ends inside one, as after a crash, the last entry is "cut_off". Throws ProtocolError if the
 * file is no recording.
 */
export async function* readRecording(file: string): AsyncGenerator<RecordedEntry> {
  let entries: RecordedEntry[] = [];
  let isFirst = true;
  const decoder = new FrameDecoder(maxEntryBytes, (bytes) => {
    const entry = decodeEntry(bytes);
    if (isFirst && entry.name !== 'start')
      throw new ProtocolError('order', 'It does not begin with a start.');
    isFirst = false;
    entries.push(entry);
  });
  for await (const chunk of createReadStream(file)) {
    decoder.push(chunk);
    yield* entries;
    entries = [];
  }
  if (isFirst) throw new ProtocolError('truncated', 'It holds no entry.');
  try {
    decoder.end();
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    yield { step: '', direction: 'about', name: 'cut_off', fields: { reason: error.message } };
  }
}

function decodeEntry(bytes: Uint8Array): RecordedEntry {
  const { step = '0', duringStep: _, ...member } = decodeFields(bytes);
  const [[kind, value] = ['none', {}]] = Object.entries(member);
  if (kind === 'command') return { step: String(step), direction: 'to_runner', ...memberOf(value) };
  if (kind === 'event') return { step: String(step), direction: 'from_runner', ...memberOf(value) };
  if (kind === 'none') throw new ProtocolError('empty', 'An entry holds nothing that this version knows.');
  const direction = kind === 'commandsEnd' ? 'to_runner' : 'about';
  return { step: String(step), direction, name: snakeCase(kind), fields: value as Fields };
}

function decodeFields(bytes: Uint8Array): Fields {
  try {
    return RecordEntry.toObject(RecordEntry.decode(bytes), { enums: String, longs: String, bytes: String });
  } catch (error) {
    throw new ProtocolError('garbage', 'An entry is not a protobuf message.', { cause: error });
  }
}

function memberOf(message: unknown): { name: string; fields: Fields } {
  const [[name, fields] = ['none', {}]] = Object.entries(message as Fields);
  return { name: snakeCase(name), fields: fields as Fields };
}
