/** What the gateway and the keeper of the file, a process of its own, say to each other, and what both know. */

/** In the memory for loads, the blocks that have bytes are at most this share of those of a runner's cache. */
export const stagedShare = 0.25;

/** Memory of the gateway, which the keeper opens for itself. */
export interface SharedMemory {
  readonly path: string;
  /** The descriptor behind the path may be of another file by the time it is opened. */
  readonly inode: bigint;
  readonly bytes: number;
}

/** pool: the runners of a model. place: one of them and those that come after it. */
export type ToKeeper =
  | { readonly type: 'open'; readonly path: string; readonly fileBytes: number; readonly secretPath: string }
  /** Where the runners of the pool look for blocks; undefined: nowhere any more. */
  | { readonly type: 'staging'; readonly pool: number; readonly memory: SharedMemory | undefined }
  /** The cache of a place lies in this memory from now on. isOlder: a keeper before this one was told so, too. */
  | {
      readonly type: 'place';
      readonly pool: number;
      readonly place: number;
      readonly memory: SharedMemory;
      readonly isOlder?: boolean;
    }
  /** The memory is used no more. isDistrusted: what was taken from it may be wrong. */
  | {
      readonly type: 'no_place';
      readonly pool: number;
      readonly place: number;
      readonly isDistrusted: boolean;
    }
  /** While there was no keeper, a place was distrusted: what earlier keepers have saved may be wrong. */
  | { readonly type: 'distrust' }
  /**
   * The identity of the model that the pool's runners have. A cache that says that it is of another one is left alone, so that a
   * runner which somebody has taken over can write blocks of its own model only.
   */
  | { readonly type: 'model'; readonly pool: number; readonly identity: string }
  /** The pool's runners may have computed blocks. */
  | { readonly type: 'save'; readonly pool: number }
  /** ids: from the beginning of the text on. */
  | {
      readonly type: 'load';
      readonly number: number;
      readonly pool: number;
      readonly ids: Uint32Array;
      readonly salt: Uint8Array;
    }
  /** The blocks of this load are needed no more. */
  | { readonly type: 'release'; readonly number: number; readonly pool: number }
  /** Saves what is new. Answered by 'saved' with this number. */
  | { readonly type: 'flush'; readonly number: number; readonly pool: number }
  | { readonly type: 'no_pool'; readonly pool: number };

export interface KvDiskFigures {
  readonly numBlocks: number;
  readonly usedBytes: number;
  readonly numSaved: number;
  readonly numLoaded: number;
  readonly numDropped: number;
}

/** While no file is open. */
export const NO_KV_DISK: KvDiskFigures = {
  ...{ numBlocks: 0, usedBytes: 0, numSaved: 0, numLoaded: 0, numDropped: 0 },
};

export type FromKeeper =
  /** Another process uses the file. */
  | { readonly type: 'waiting'; readonly ownerPid: number }
  | { readonly type: 'opened'; readonly figures: KvDiskFigures }
  /** places: those whose caches have the beginning of the text; empty if nothing was loaded. */
  | {
      readonly type: 'loaded';
      readonly number: number;
      readonly numBlocks: number;
      readonly places: readonly number[];
    }
  | { readonly type: 'saved'; readonly number: number }
  | { readonly type: 'figures'; readonly figures: KvDiskFigures }
  /** The file is used no more. */
  | { readonly type: 'failed'; readonly reason: string };
