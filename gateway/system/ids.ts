import { randomInt, randomUUID } from 'node:crypto';

/** Draws what differs between two equal requests. Tests count instead, and then equal requests have equal answers. */
export interface Ids {
  uuid(): string;
  /** A seed for a request without one. It is below 2^48, so that every JSON reader reads the reported seed exactly. */
  seed(): bigint;
}

export const randomIds: Ids = {
  uuid: randomUUID,
  seed: () => BigInt(randomInt(2 ** 48 - 1)),
};
