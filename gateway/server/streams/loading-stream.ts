import type { Context } from 'hono';
import type { OpenText } from '../../generation/merge-streams.ts';
import { type Clock, settlesWithin } from '../../system/clock.ts';
import { eventStream, type ResponseStream } from './response-stream.ts';

/** How often a waiting client is told how far its model is loaded. */
export const progressIntervalMs = 1000;

interface LoadingStreamOptions {
  readonly clock: Clock;
  /** The progress in a few words. */
  readonly progress: () => string;
  /** Makes the events that tell the client about an error before the answer began. */
  readonly failure: (thrown: unknown) => string;
}

/**
 * Begins a stream of server-sent events before the answer is known. Comments report the progress; the answer then goes on
 * in the same stream. answered: settles when the answer has begun, or cannot begin.
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

/** A source that does nothing: whoever waits learns from the request's own signal that its client has left. */
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
