import { createHash, timingSafeEqual } from 'node:crypto';
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { UsageError } from '../../errors/exit-code.ts';

const MIN_KEY_CHARACTERS = 16;
const MAX_KEY_CHARACTERS = 256;
const MAX_FILE_BYTES = 2 ** 20;

/** What a key lets its holder do: ask for answers, or that and what is for operators. */
export type KeyRight = 'client' | 'admin';

export interface KeyCheck {
  /** Undefined for a key that nobody was given. Takes the same time for every key of a length, right or wrong. */
  rightOf(key: string): KeyRight | undefined;
}

/** The keys that let clients and operators in. Only their hashes are kept. */
export class ApiKeys implements KeyCheck {
  readonly #clients: readonly Buffer[];
  readonly #admins: readonly Buffer[];

  /** A key that is on both lists is an admin's. */
  constructor(clients: readonly string[], admins: readonly string[] = []) {
    this.#clients = clients.map(hashOf);
    this.#admins = admins.map(hashOf);
  }

  get numClients(): number {
    return this.#clients.length;
  }

  get numAdmins(): number {
    return this.#admins.length;
  }

  rightOf(key: string): KeyRight | undefined {
    const hash = hashOf(key);
    const isClient = isAmong(this.#clients, hash);
    if (isAmong(this.#admins, hash)) return 'admin';
    return isClient ? 'client' : undefined;
  }
}

/** Looks at all of them, whichever it is. */
function isAmong(hashes: readonly Buffer[], hash: Buffer): boolean {
  let isFound = false;
  for (const known of hashes) isFound = timingSafeEqual(known, hash) || isFound;
  return isFound;
}

export interface KeyPaths {
  readonly clients: string;
  /** Undefined: nobody may administer with a key. */
  readonly admins: string | undefined;
}

/** The keys of files, which may be read again while requests come. */
export class KeyFiles implements KeyCheck {
  readonly #paths: KeyPaths;
  #keys: ApiKeys;

  /** Throws what readApiKeys throws. */
  constructor(paths: KeyPaths) {
    this.#paths = paths;
    this.#keys = readKeys(paths);
  }

  rightOf(key: string): KeyRight | undefined {
    return this.#keys.rightOf(key);
  }

  /** The keys that count from now on. Throws what readApiKeys throws; then those of before count. */
  readAgain(): ApiKeys {
    this.#keys = readKeys(this.#paths);
    return this.#keys;
  }
}

function readKeys({ clients, admins }: KeyPaths): ApiKeys {
  return new ApiKeys(readApiKeys(clients), admins === undefined ? [] : readApiKeys(admins));
}

/**
 * Reads one key a line; lines that begin with # are comments. UsageError for a file that others may read as well, or
 * that has something else in it; the message never has the key.
 */
export function readApiKeys(path: string): string[] {
  const lines = readPrivately(path).split('\n');
  const keys = lines.flatMap((line, index) => {
    const key = line.trim();
    if (key === '' || key.startsWith('#')) return [];
    if (!/^[\x21-\x7e]+$/.test(key) || key.length < MIN_KEY_CHARACTERS || key.length > MAX_KEY_CHARACTERS) {
      throw new UsageError(
        `Line ${index + 1} of the keys file ${path} is no key: one has ${MIN_KEY_CHARACTERS} to ${MAX_KEY_CHARACTERS} visible ASCII characters. \`openssl rand -hex 32\` makes one.`,
      );
    }
    return [key];
  });
  if (keys.length === 0) {
    throw new UsageError(`The keys file ${path} has no key. \`openssl rand -hex 32\` makes one.`);
  }
  return keys;
}

function readPrivately(path: string): string {
  // O_NONBLOCK: opening a FIFO would otherwise wait for somebody to write to it.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw new UsageError(`The keys file ${path} is not a regular file.`);
    const mode = stats.mode & 0o777;
    if ((mode & (isCredential(path) ? 0o037 : 0o077)) !== 0) {
      throw new UsageError(
        `The keys file ${path} is open to others than its owner (mode ${mode.toString(8)}); run \`chmod 600 ${path}\`.`,
      );
    }
    if (stats.size > MAX_FILE_BYTES) {
      throw new UsageError(
        `The keys file ${path} has ${stats.size} bytes; at most ${MAX_FILE_BYTES} are read.`,
      );
    }
    return readFileSync(fd, 'utf8');
  } finally {
    closeSync(fd);
  }
}

/** LoadCredential= of systemd lets the service's user in by an access list, which a mode shows as the group's right. */
function isCredential(path: string): boolean {
  return dirname(path) === process.env.CREDENTIALS_DIRECTORY;
}

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
