import { z } from 'zod';
import { violated } from '../fields.ts';
import { shown } from '../shown.ts';

const MAX_BIASES = 1024;
const MAX_BIAS = 100;

/** `{"50256": -100}`: what is added to the logits of tokens. Ids are checked against the model later. */
export function logitBias(name: string) {
  return z.record(z.string(), z.number()).transform((biases, ctx): ReadonlyMap<number, number> => {
    const entries = Object.entries(biases);
    if (entries.length > MAX_BIASES) {
      const rule = { constraint: `max_count(${MAX_BIASES})`, value: String(entries.length) };
      violated(ctx, rule, `${name} must have at most ${MAX_BIASES} tokens (got ${entries.length})`);
      return z.NEVER;
    }
    for (const [key, bias] of entries) {
      if (!/^(0|[1-9]\d{0,9})$/.test(key)) {
        const value = shown(key);
        const message = `${name} must have token ids as keys, such as "50256" (got ${JSON.stringify(value)})`;
        violated(ctx, { constraint: 'token_id', value }, message, [value]);
      } else if (Math.abs(bias) > MAX_BIAS) {
        const rule = { constraint: `range(-${MAX_BIAS}..=${MAX_BIAS})`, value: String(bias) };
        violated(ctx, rule, `${name}.${key} must be from -${MAX_BIAS} to ${MAX_BIAS} (got ${bias})`, [key]);
      }
    }
    return new Map(entries.map(([key, bias]) => [Number(key), bias]));
  });
}
