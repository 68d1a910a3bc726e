import type { Context } from 'hono';

export interface StreamHooks {
  /** The client went away; must make the chunks end. */
  readonly onCancel: () => void;
  /** Called once, when nothing more will be sent. */
  readonly onEnd: () => void;
}

/**
 * A body that is pulled: the next chunk is asked for only when the socket has taken the last one, so a slow client
 * slows its own stream down and nobody else's.
 */
export function streamResponse(
  c: Context,
  contentType: string,
  chunks: AsyncIterator<Uint8Array>,
  hooks: StreamHooks,
): Response {
  const clientGone = c.req.raw.signal;
  let open = true;
  const end = (): void => {
    if (!open) return;
    open = false;
    clientGone.removeEventListener('abort', cancel);
    hooks.onEnd();
  };
  // Reached through the body, or through the request's signal when the client left before the body was read.
  const cancel = (): void => {
    if (!open) return;
    hooks.onCancel();
    end();
  };
  if (clientGone.aborted) cancel();
  else clientGone.addEventListener('abort', cancel);
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = await chunks.next().catch((error: unknown) => {
          end();
          throw error;
        });
        if (next.done !== true) return controller.enqueue(next.value);
        end();
        controller.close();
      },
      cancel,
    },
    { highWaterMark: 0 },
  );
  return c.body(body, 200, {
    'content-type': contentType,
    'cache-control': 'no-cache',
    // Tells nginx and its kin not to collect the stream.
    'x-accel-buffering': 'no',
  });
}
