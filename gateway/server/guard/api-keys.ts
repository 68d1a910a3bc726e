import { createHash, timingSafeEqual } from 'node:crypto';
import { readApiKeys } from '../../config/keys-file.ts';

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

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
