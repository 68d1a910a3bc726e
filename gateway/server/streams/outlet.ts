import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

type Encoding = 'utf8' | 'latin1';

/** Where a stream is written to. */
export interface Outlet {
  /** text: not empty. Returns false if the client is behind; onDrain is called when it has caught up. */
  write(text: string, encoding: Encoding): boolean;
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
  let hasBegun = false;
  return {
    write: (text, encoding) => {
      if (outgoing.destroyed) return true;
      const { socket } = outgoing;
      if (hasBegun && socket?.writable && outgoing.chunkedEncoding)
        return writeChunk(socket, text, encoding, onDrain);
      // The first write takes the header along.
      hasBegun = socket !== null;
      return outgoing.write(text, encoding);
    },
    end: () => outgoing.end(),
    cut: () => outgoing.destroy(),
  };
}

/**
 * Writes a chunk in one piece. Node's response makes four writes of it and joins them later, which costs more than all that
 * makes the text.
 */
function writeChunk(socket: Socket, text: string, encoding: Encoding, onDrain: () => void): boolean {
  const numBytes = Buffer.byteLength(text, encoding);
  const isTaken = socket.write(`${numBytes.toString(16)}\r\n${text}\r\n`, encoding);
  // The response reports only what it has written itself.
  if (!isTaken) socket.once('drain', onDrain);
  return isTaken;
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
