import { randomInt } from 'node:crypto';

/** For requests without a seed. Below 2^48, so that every JSON reader gets the reported one back exactly. */
export function randomSeed(): bigint {
  return BigInt(randomInt(2 ** 48 - 1));
}
