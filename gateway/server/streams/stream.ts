import type { ServerResponse } from 'node:http';
import type { Context } from 'hono';

declare module 'hono' {
  interface ContextVariableMap {
    /** Called with the error that broke an answer off after it had begun. The client cannot be told of it any more. */
    onBroken: (error: unknown) => void;
  }
}

interface StreamHooks {
  /** The client has left. Must make the chunks end. */
  readonly onCancel: () => void;
  /** Called once, when nothing more will be sent. */
  readonly onEnd: () => void;
}

/**
 * A pulled body: the next chunk is asked for when the socket has taken the last one, so a slow client slows its own
 * stream and nobody else's.
 */
export function streamResponse(
  c: Context,
  contentType: string,
  chunks: AsyncIterator<Uint8Array>,
  hooks: StreamHooks,
): Response {
  const clientGone = c.req.raw.signal;
  const breakOff = breakerOf(c);
  let open = true;
  const end = (): void => {
    if (!open) return;
    open = false;
    clientGone.removeEventListener('abort', cancel);
    hooks.onEnd();
  };
  // Called by the body, or by the request's signal if the client leaves before the body is read.
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
        let next: IteratorResult<Uint8Array>;
        try {
          next = await chunks.next();
        } catch (error) {
          end();
          breakOff(controller, error);
          return;
        }
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
    // Tells nginx and similar proxies not to buffer the stream.
    'x-accel-buffering': 'no',
  });
}

/**
 * Returns a function that breaks off an answer by cutting its connection, because a body cannot say that it failed. The
 * error goes to the log and not to the client. The function keeps nothing of the request.
 */
function breakerOf(c: Context): (controller: ReadableStreamDefaultController, error: unknown) => void {
  const onBroken = c.get('onBroken') as ((error: unknown) => void) | undefined;
  const outgoing = (c.env as { outgoing?: ServerResponse } | undefined)?.outgoing;
  return (controller, error) => {
    onBroken?.(error);
    if (outgoing === undefined) {
      controller.error(error);
      return;
    }
    outgoing.destroy();
    controller.close();
  };
}
