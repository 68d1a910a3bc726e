import { setTimeout as elapsed } from 'node:timers/promises';
import type { Sample } from './sample.ts';

/** How requests follow each other. Each way gives the samples in the order of the requests. */

/** One request, by its number from 0. */
export type Ask = (index: number) => Promise<Sample>;

/** Closed loop: so many clients, each of which asks again when it has its answer. */
export async function byConcurrency(ask: Ask, count: number, concurrency: number): Promise<Sample[]> {
  const samples: Sample[] = [];
  let next = 0;
  const client = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) samples[index] = await ask(index);
  };
  await Promise.all(Array.from({ length: concurrency }, client));
  return samples;
}

/** Open loop: requests arrive when they arrive, however many are open, so that waiting shows. arrivalsMs: ascending, from now. */
export async function byArrivals(
  ask: Ask,
  arrivalsMs: readonly number[],
  now: () => number,
): Promise<Sample[]> {
  const beganMs = now();
  const open: Promise<Sample>[] = [];
  for (const [index, arrivalMs] of arrivalsMs.entries()) {
    const waitMs = beganMs + arrivalMs - now();
    if (waitMs > 0) await elapsed(waitMs);
    const sample = ask(index);
    // It is awaited when all have been sent.
    sample.catch(() => {});
    open.push(sample);
  }
  return Promise.all(open);
}
