import type { Context } from 'hono';

export interface SseHooks {
  /** The client went away; must make the events end. */
  readonly onCancel: () => void;
  /** Called once, when nothing more will be sent. */
  readonly onEnd: () => void;
}

/**
 * Server-sent events as a body that is pulled: the next chunk is asked for only when the socket has taken the last
 * one, so a slow client slows its own stream down and nobody else's.
 */
export function sseResponse(c: Context, events: AsyncIterator<string>, hooks: SseHooks): Response {
  const encoder = new TextEncoder();
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
        const next = await events.next().catch((error: unknown) => {
          end();
          throw error;
        });
        if (next.done !== true) return controller.enqueue(encoder.encode(next.value));
        end();
        controller.close();
      },
      cancel,
    },
    { highWaterMark: 0 },
  );
  return new Response(body, {
    headers: {
      'content-type': 'text/event-stream',
      'cache-control': 'no-cache',
      // Tells nginx and its kin not to collect the stream.
      'x-accel-buffering': 'no',
    },
  });
}

/** An event with a name, as native streams use. */
export function namedEvent(event: string, json: string): string {
  return `event: ${event}\ndata: ${json}\n\n`;
}

/** An event without one, as OpenAI streams use: their clients wrap named events and would miss the data. */
export function dataEvent(json: string): string {
  return `data: ${json}\n\n`;
}
