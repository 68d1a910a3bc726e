import type { ServerResponse } from 'node:http';
import type { Context } from 'hono';

declare module 'hono' {
  interface ContextVariableMap {
    /** Told what broke an answer off that had begun, of which the client can hear no more. */
    onBroken: (error: unknown) => void;
  }
}

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
  const breakOff = breakerOf(c);
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
    // Tells nginx and its kin not to collect the stream.
    'x-accel-buffering': 'no',
  });
}

/**
 * A body cannot say that it failed; a connection that is cut can. What failed is for the log, and not for the client. What is
 * returned keeps nothing of the request.
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
