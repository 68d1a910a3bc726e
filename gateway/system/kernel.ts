import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { release } from 'node:os';
import { isShortage } from '../errors/thrown.ts';

/**
 * What the kernel tells of processes, in /proc/PID/stat, of its huge pages, and of connections, in /proc/net. It works on Linux, on one
 * machine.
 */

/** The fields from the third on; undefined if there is no such process. */
function statOf(pid: number): string[] | undefined {
  const stat = kernelFile(`/proc/${pid}/stat`);
  // The second field is the program's name in parentheses and may hold anything. The third follows the last parenthesis.
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** The text of a file of the kernel's own, so that reading it does not wait for a disk; undefined if it cannot be read. */
export function kernelFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

/** The id with the start time of the process, because ids are reused. Undefined if the process does not run or is a zombie. */
export function identityOf(pid: number): string | undefined {
  const fields = statOf(pid);
  return fields === undefined || 'ZX'.includes(fields[0] ?? '') ? undefined : `${pid} ${fields[22 - 3]}`;
}

export function isRunning(identity: string): boolean {
  return identity === identityOf(Number.parseInt(identity, 10));
}

/** Clock ticks of the two counters below. USER_HZ is 100 on every Linux that Node runs on. */
const ticksPerSecond = 100;

/** The processor time of all threads of a process so far, in milliseconds, in steps of ten. Undefined if there is no such process. */
export function processorMsOf(pid: number): number | undefined {
  const fields = statOf(pid);
  if (fields === undefined) return undefined;
  const [userTicks, systemTicks] = [Number(fields[14 - 3]), Number(fields[15 - 3])];
  return ((userTicks + systemTicks) * 1000) / ticksPerSecond;
}

export const SHARED_PAGES = '/sys/kernel/mm/transparent_hugepage/shmem_enabled';

export interface HugePages {
  /** The kernel's setting in SHARED_PAGES; null: it has no huge pages. */
  readonly shared_setting: string | null;
  /** Whether the weights that runners share get huge pages. */
  readonly for_weights: boolean;
}

/**
 * Whether files in memory, such as the weights that runners share, get huge pages from this kernel.
 * root: the directory that holds /sys; kernel: release of the kernel. Tests replace both.
 */
export function hugePages(root = '', kernel = release()): HugePages {
  const setting = /\[(\w+)\]/.exec(kernelFile(`${root}${SHARED_PAGES}`) ?? '')?.[1] ?? null;
  // A runner asks for huge pages, and from Linux 6.1 on it gets them also where the setting is `never`.
  const [major = 0, minor = 0] = kernel.split('.').map((part) => Number.parseInt(part, 10));
  const isGivenAnyway = major > 6 || (major === 6 && minor >= 1);
  const isDenied = setting === null || setting === 'deny' || (setting === 'never' && !isGivenAnyway);
  return { shared_setting: setting, for_weights: !isDenied };
}

/** Unacknowledged bytes by connection; connections without any are left out. */
export type Unacknowledged = ReadonlyMap<string, number>;

/** A table takes the kernel the same time however few connections it has. */
const TABLES = { IPv4: '/proc/net/tcp', IPv6: '/proc/net/tcp6' } as const;

/** The table that has a connection. */
export type AddressFamily = keyof typeof TABLES;

const ESTABLISHED = '01';

/**
 * Reads how many sent bytes each connection's receiver has not acknowledged. For Node, bytes are gone when the kernel has
 * them, and the kernel keeps megabytes for a peer that has vanished.
 * The tables of thousands of connections take the kernel milliseconds, so they are not read on the event loop. What a socket
 * reports afterwards may include bytes that were written meanwhile, which then count as taken until the next look. Undefined
 * in a shortage of the machine, when there may be no descriptor to read by.
 */
export async function readUnacknowledged(
  families: ReadonlySet<AddressFamily>,
): Promise<Unacknowledged | undefined> {
  const found = new Map<string, number>();
  for (const table of await Promise.all([...families].map((family) => readTable(TABLES[family])))) {
    if (table === undefined) return undefined;
    addTable(found, table);
  }
  return found;
}

/** Undefined for anything but a TCP connection. */
export function familyOf({ remoteFamily }: Socket): AddressFamily | undefined {
  return remoteFamily === 'IPv4' || remoteFamily === 'IPv6' ? remoteFamily : undefined;
}

/** The connection's key in Unacknowledged; undefined for anything but a TCP connection. */
export function connectionKey({ remoteAddress, remotePort, localPort }: Socket): string | undefined {
  if (remoteAddress === undefined || remotePort === undefined || localPort === undefined) return undefined;
  return keyOf(localPort, hexAddress(remoteAddress), remotePort);
}

/**
 * Parses a table. Its columns: number, local address:port, remote address:port, state, unacknowledged:unread and more.
 * All but the number are hexadecimal.
 */
export function addTable(found: Map<string, number>, table: string): void {
  for (const row of table.split('\n')) {
    const [, local, remote, state, queues] = row.trimStart().split(/ +/, 5);
    if (local === undefined || remote === undefined || queues === undefined || state !== ESTABLISHED)
      continue;
    const numBytes = Number.parseInt(queues, 16);
    if (numBytes === 0) continue;
    const [address = '', port = ''] = remote.split(':');
    const localPort = Number.parseInt(local.split(':')[1] ?? '', 16);
    found.set(keyOf(localPort, address, Number.parseInt(port, 16)), numBytes);
  }
}

function keyOf(localPort: number, hexRemoteAddress: string, remotePort: number): string {
  return `${localPort} ${hexRemoteAddress} ${remotePort}`;
}

/** Writes an address as the tables do: each four bytes as a little-endian number. */
function hexAddress(address: string): string {
  const bytes = address.includes(':') ? bytesOfIpv6(address) : bytesOfIpv4(address);
  let hex = '';
  for (let word = 0; word < bytes.length; word += 4)
    hex += bytes.readUInt32LE(word).toString(16).padStart(8, '0');
  return hex.toUpperCase();
}

function bytesOfIpv4(address: string): Buffer {
  return Buffer.from(address.split('.').map(Number));
}

function bytesOfIpv6(address: string): Buffer {
  const bare = address.split('%', 1)[0] ?? '';
  // An IPv4-mapped IPv6 address, as dual-stack sockets report it.
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(bare)?.[1];
  if (mapped !== undefined)
    return Buffer.concat([Buffer.alloc(10), Buffer.from([255, 255]), bytesOfIpv4(mapped)]);
  const [before = '', after] = bare.split('::');
  const front = groupsOf(before);
  const back = groupsOf(after ?? '');
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => '0');
  const groups = [...front, ...zeros, ...back];
  return Buffer.from(groups.map((group) => group.padStart(4, '0')).join(''), 'hex');
}

function groupsOf(text: string): string[] {
  return text === '' ? [] : text.split(':');
}

/** A table that is not there has no rows. Undefined in a shortage. */
function readTable(path: string): Promise<string | undefined> {
  return readFile(path, 'latin1').catch((error: unknown) => (isShortage(error) ? undefined : ''));
}
