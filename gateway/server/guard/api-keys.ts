import { createHash, timingSafeEqual } from 'node:crypto';
import { type KeyLine, readKeysFile, requireOneCallerPerName } from '../../config/keys-file.ts';
import type { Caller } from '../../system/caller.ts';

/** What a key lets its holder do: `client` asks for answers, `admin` also uses the operators' routes. */
export type KeyRight = 'client' | 'admin';

/** Who holds a key. */
interface KeyHolder {
  readonly right: KeyRight;
  readonly caller: Caller;
}

export interface KeyCheck {
  /** The holder of a key; undefined if the key is unknown. Takes the same time for every key of one length, right or wrong. */
  holderOf(key: string): KeyHolder | undefined;
}

interface KnownKey {
  readonly hash: Buffer;
  readonly caller: Caller;
}

/** The keys of clients and of operators. Only their hashes are kept. */
export class ApiKeys implements KeyCheck {
  readonly #clients: readonly KnownKey[];
  readonly #admins: readonly KnownKey[];

  /** A key that is on both lists is an admin's, whose caller the clients' list names. Throws UsageError if a name stands for different callers. */
  constructor(clients: readonly KeyLine[], admins: readonly KeyLine[] = []) {
    requireOneCallerPerName([...clients, ...admins]);
    this.#clients = clients.map(knownKeyOf);
    this.#admins = admins.map(knownKeyOf);
  }

  get numClients(): number {
    return this.#clients.length;
  }

  get numAdmins(): number {
    return this.#admins.length;
  }

  holderOf(key: string): KeyHolder | undefined {
    const hash = hashOf(key);
    const client = find(this.#clients, hash);
    const admin = find(this.#admins, hash);
    const caller = client ?? admin;
    return caller && { right: admin === undefined ? 'client' : 'admin', caller };
  }
}

function knownKeyOf({ key, caller }: KeyLine): KnownKey {
  return { hash: hashOf(key), caller };
}

/** Compares with every hash, so that the time does not tell which one matched. */
function find(keys: readonly KnownKey[], hash: Buffer): Caller | undefined {
  let found: Caller | undefined;
  for (const known of keys) found = timingSafeEqual(known.hash, hash) ? known.caller : found;
  return found;
}

interface KeyPaths {
  readonly clients: string;
  /** Undefined if there are no admin keys. */
  readonly admins: string | undefined;
}

/** Keys read from files. The files may be read again while requests are served. */
export class KeyFiles implements KeyCheck {
  readonly #paths: KeyPaths;
  #keys: ApiKeys;

  /** Throws what readKeysFile throws. */
  constructor(paths: KeyPaths) {
    this.#paths = paths;
    this.#keys = readKeys(paths);
  }

  holderOf(key: string): KeyHolder | undefined {
    return this.#keys.holderOf(key);
  }

  /**
   * Reads the files again and returns the keys that are valid from now on. Throws what readKeysFile throws; the old keys
   * then stay valid.
   */
  readAgain(): ApiKeys {
    this.#keys = readKeys(this.#paths);
    return this.#keys;
  }
}

function readKeys({ clients, admins }: KeyPaths): ApiKeys {
  return new ApiKeys(readKeysFile(clients), admins === undefined ? [] : readKeysFile(admins, 'admin'));
}

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
