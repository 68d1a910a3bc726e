/**
 * Extracts one member of a zip archive, such as a wheel. It reads the directory at the end of the archive and then streams
 * the member, so neither archive nor member is ever in memory. Format: APPNOTE.TXT of PKWARE. zip64, encryption and archives
 * in several parts are refused.
 */
import type { FileHandle } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { createInflateRaw } from 'node:zlib';

const endSignature = 0x06054b50;
const endBytes = 22;
const commentBytesMax = 65_535;
const entrySignature = 0x02014b50;
const entryBytes = 46;
const localSignature = 0x04034b50;
const localBytes = 30;
const directoryBytesMax = 16 * 2 ** 20;
const methods = { stored: 0, deflated: 8 } as const;
const encryptedFlag = 1;

/** The archive is damaged, of an unsupported kind, or lacks the member. */
export class ZipError extends Error {
  override readonly name = 'ZipError';
}

export interface ZipMember {
  readonly method: number;
  readonly compressedBytes: number;
  readonly bytes: number;
  readonly localOffset: number;
}

export async function findMember(archive: FileHandle, path: string): Promise<ZipMember> {
  const { size } = await archive.stat();
  const directory = await readDirectory(archive, size);
  for (let at = 0; at + entryBytes <= directory.length; ) {
    if (directory.readUInt32LE(at) !== entrySignature) throw new ZipError('its directory is damaged');
    const nameEnd = at + entryBytes + directory.readUInt16LE(at + 28);
    if (directory.toString('utf8', at + entryBytes, nameEnd) === path) return readEntry(directory, at, path);
    at = nameEnd + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
  }
  throw new ZipError(`it has no member ${path}`);
}

/** Streams the member's bytes. The stream fails with an error of zlib if they are damaged. */
export async function openMember(archive: FileHandle, member: ZipMember): Promise<Readable> {
  const local = await readExactly(archive, member.localOffset, localBytes);
  if (local.readUInt32LE(0) !== localSignature)
    throw new ZipError('a member is not where its directory says');
  const start = member.localOffset + localBytes + local.readUInt16LE(26) + local.readUInt16LE(28);
  const raw = readStream(archive, start, member.compressedBytes);
  if (member.method === methods.stored) return raw;
  const inflate = createInflateRaw();
  raw.on('error', (error) => inflate.destroy(error));
  return raw.pipe(inflate);
}

/** createReadStream() includes the byte at `end`, so it cannot read 0 bytes. */
function readStream(archive: FileHandle, start: number, bytes: number): Readable {
  if (bytes === 0) return Readable.from([]);
  return archive.createReadStream({ start, end: start + bytes - 1, autoClose: false });
}

async function readDirectory(archive: FileHandle, archiveBytes: number): Promise<Buffer> {
  const tailBytes = Math.min(archiveBytes, endBytes + commentBytesMax);
  const tail = await readExactly(archive, archiveBytes - tailBytes, tailBytes);
  for (let at = tailBytes - endBytes; at >= 0; at--) {
    if (tail.readUInt32LE(at) !== endSignature) continue;
    const directoryBytes = tail.readUInt32LE(at + 12);
    const directoryOffset = tail.readUInt32LE(at + 16);
    if (directoryBytes > directoryBytesMax || directoryOffset + directoryBytes > archiveBytes) break;
    return readExactly(archive, directoryOffset, directoryBytes);
  }
  throw new ZipError('it is not a zip archive, or is truncated');
}

function readEntry(directory: Buffer, at: number, path: string): ZipMember {
  const method = directory.readUInt16LE(at + 10);
  const isEncrypted = (directory.readUInt16LE(at + 8) & encryptedFlag) !== 0;
  if (isEncrypted || (method !== methods.stored && method !== methods.deflated))
    throw new ZipError(
      `its member ${path} is encrypted, or packed by a method that is not supported (${method})`,
    );
  return {
    method,
    compressedBytes: directory.readUInt32LE(at + 20),
    bytes: directory.readUInt32LE(at + 24),
    localOffset: directory.readUInt32LE(at + 42),
  };
}

async function readExactly(archive: FileHandle, offset: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  const { bytesRead } = await archive.read(buffer, 0, length, offset);
  if (bytesRead < length) throw new ZipError('it is truncated');
  return buffer;
}
