import * as z from 'zod';
import { violated } from './fields.ts';

/** The field `durable` of all generating routes: the job goes on without its client, and the journal keeps it. */
export const durable = z.boolean().default(false);

interface DurableFields {
  readonly durable: boolean;
  readonly metrics?: boolean;
  readonly timings?: boolean;
  readonly echo?: boolean;
  /** The answers that are asked for. */
  readonly n?: number;
}

const WHY = {
  metrics: 'measurements do not survive a restart of the gateway',
  timings: 'measurements do not survive a restart of the gateway',
  echo: 'the journal keeps what the model writes',
} as const;

/** Refuses what cannot be read again. */
export function checkDurable(ctx: Pick<z.RefinementCtx, 'addIssue'>, request: DurableFields): void {
  if (!request.durable) return;
  for (const name of ['metrics', 'timings', 'echo'] as const) {
    if (!request[name]) continue;
    const sentence = `${name} and durable exclude each other: ${WHY[name]}; send one of them`;
    violated(ctx, { constraint: 'exclusive' }, sentence, [name]);
  }
  const { n = 1 } = request;
  if (n === 1) return;
  const rule = { constraint: 'range(1..=1)', value: String(n) };
  violated(ctx, rule, `durable takes one answer (got n and prompts for ${n}): a job has one`, ['n']);
}
