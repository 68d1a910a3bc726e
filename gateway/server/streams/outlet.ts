import type { ServerResponse } from 'node:http';

/** Where a stream goes. */
export interface Outlet {
  /** False: the client is behind, and onDrain is called when it has caught up. */
  write(text: string, encoding: 'utf8' | 'latin1'): boolean;
  end(): void;
  /** Breaks the connection off: the client sees that this was no end. */
  cut(): void;
}

/** To Node's own response, whose header has been written. */
export function socketOutlet(outgoing: ServerResponse, onDrain: () => void): Outlet {
  outgoing.on('drain', onDrain);
  // Node tells of a connection that breaks under a write; its 'close' is what ends the stream.
  outgoing.on('error', () => {});
  return {
    write: (text, encoding) => outgoing.destroyed || outgoing.write(text, encoding),
    end: () => outgoing.end(),
    cut: () => outgoing.destroy(),
  };
}

/** To a body that is pulled, where there is no socket. A client that has not asked for more is behind. */
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
