import type { ServerResponse } from 'node:http';

/** Where a stream is written to. */
export interface Outlet {
  /** Returns false if the client is behind; onDrain is called when it has caught up. */
  write(text: string, encoding: 'utf8' | 'latin1'): boolean;
  end(): void;
  /** Breaks the connection off, so that the client sees that the answer is incomplete. */
  cut(): void;
}

/** Writes to Node's own response, whose header has been written. */
export function socketOutlet(outgoing: ServerResponse, onDrain: () => void): Outlet {
  outgoing.on('drain', onDrain);
  // Node reports a connection that breaks during a write. The listener only keeps that from throwing: the stream ends by
  // 'close'.
  outgoing.on('error', () => {});
  return {
    write: (text, encoding) => outgoing.destroyed || outgoing.write(text, encoding),
    end: () => outgoing.end(),
    cut: () => outgoing.destroy(),
  };
}

/** Writes to a pulled body, for a request without a socket. A client that has not asked for more is behind. */
export function bodyOutlet(
  onDrain: () => void,
  onCancel: () => void,
): { readonly outlet: Outlet; readonly body: ReadableStream<Uint8Array> } {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>(
    {
      start: (started) => {
        controller = started;
      },
      pull: onDrain,
      cancel: onCancel,
    },
    { highWaterMark: 0 },
  );
  const outlet: Outlet = {
    write: (text, encoding) => {
      controller?.enqueue(Buffer.from(text, encoding));
      return (controller?.desiredSize ?? 0) > 0;
    },
    end: () => controller?.close(),
    cut: () => controller?.error(new Error('The stream was broken off.')),
  };
  return { outlet, body };
}
