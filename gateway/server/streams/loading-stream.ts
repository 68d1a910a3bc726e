import type { Context } from 'hono';
import type { OpenText } from '../../generation/merge-streams.ts';
import type { Clock } from '../../system/clock.ts';
import { settlesWithin } from '../../system/settles-within.ts';
import type { ResponseStream } from './response-stream.ts';
import { eventStream } from './sse.ts';

/** How often a client that waits is told how far its model is. */
export const progressIntervalMs = 1000;

export interface LoadingStreamOptions {
  readonly clock: Clock;
  /** In a few words. */
  readonly progress: () => string;
  /** The events that tell a client what ended its stream before the answer began. */
  readonly failure: (thrown: unknown) => string;
}

/**
 * Server-sent events that begin before their answer does: comments tell of the progress until the answer is there, which goes
 * on in the same stream. answered: settles when it has begun to, or cannot.
 */
export function streamWhileLoading(
  c: Context,
  answered: Promise<unknown>,
  options: LoadingStreamOptions,
): Response {
  const stream = eventStream(c);
  c.set('begunStream', stream);
  void fill(stream, answered, options);
  return stream.respond(nothingYet);
}

/** The request's own signal tells what waits that its client has left. */
const nothingYet: OpenText = { pause() {}, resume() {}, cancel() {} };

async function fill(
  stream: ResponseStream,
  answered: Promise<unknown>,
  { clock, progress, failure }: LoadingStreamOptions,
): Promise<void> {
  let failed: string | undefined;
  const settled = answered.catch((thrown: unknown) => {
    failed = failure(thrown);
  });
  do stream.write(`: ${progress()}\n\n`);
  while (!(await settlesWithin(settled, progressIntervalMs, clock)));
  if (failed === undefined) return;
  stream.write(failed);
  stream.end();
}
