import { parseJson } from '../../../gateway/api/json.ts';
import { type ExecuteRequest, parseExecuteRequest } from '../../../gateway/api/native/execute.ts';
import { jsonText } from '../../../gateway/json/json-values.ts';
import { RUNNEL } from '../engines/runnel.ts';
import type { Figures, Subject } from '../interleave.ts';
import { valueAt } from '../statistics.ts';

/** Measures how long the gateway takes to parse and validate the body of a POST /execute, alone on its thread. */

const EVERY_FIELD = {
  job_id: 'a3f1c2d4-5b6e-4f70-8a9b-0c1d2e3f4a5b',
  prompt: 'Write a haiku about a lighthouse.',
  max_tokens: 256,
  temperature: 0.7,
  top_p: 0.9,
  top_k: 50,
  repetition_penalty: 1.1,
  stop: ['\n\n', 'END'],
  min_p: 0.05,
  // As large as a seed can be: it must not be rounded.
  seed: 18446744073709551615n,
  min_tokens: 1,
  stop_token_ids: [1, 2],
  allowed_token_ids: [3, 4, 5],
  banned_token_ids: [6],
  metrics: true,
  token_ids: true,
  timings: true,
  durable: false,
  receipt: 'full',
};

const encoded = (body: object): Uint8Array => new TextEncoder().encode(jsonText(body));

export const BODIES = {
  every: encoded(EVERY_FIELD),
  long: encoded({ ...EVERY_FIELD, prompt: 'A lighthouse is '.repeat(2048) }),
} as const;

/** Reads before those that count, so that the code is compiled. */
const NUM_WARM_UPS = 500;
const NUM_READS = 2000;

export function readingBodies(): Subject {
  const measure = async (): Promise<Figures> => figuresOfBodies(timesMs(BODIES.every), timesMs(BODIES.long));
  return { engine: RUNNEL, settings: [''], measure };
}

export function requestOf(body: Uint8Array): ExecuteRequest {
  return parseExecuteRequest(parseJson(new TextDecoder().decode(body)));
}

function timesMs(body: Uint8Array): number[] {
  for (let i = 0; i < NUM_WARM_UPS; ++i) requestOf(body);
  return Array.from({ length: NUM_READS }, () => {
    const begin = performance.now();
    requestOf(body);
    return performance.now() - begin;
  });
}

export function figuresOfBodies(everyMs: readonly number[], longMs: readonly number[]): Figures {
  const us = (times: readonly number[], part: number): number => valueAt(times, part) * 1000;
  return {
    bodyP50: us(everyMs, 0.5),
    bodyP95: us(everyMs, 0.95),
    bodyP99: us(everyMs, 0.99),
    longBodyP50: us(longMs, 0.5),
    longBodyP95: us(longMs, 0.95),
    longBodyP99: us(longMs, 0.99),
  };
}
