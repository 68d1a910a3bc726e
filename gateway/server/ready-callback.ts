import type { Log } from '../telemetry/log.ts';

/** The one message to a pool manager: this worker can take work now. It is sent once, when server and model are ready. */
export interface ReadyMessage {
  readonly worker_id: string;
  readonly vram_bytes: number;
  /** Where the pool manager reaches this worker's HTTP interface. */
  readonly uri: string;
  readonly memory_bytes: number;
  readonly memory_type: string;
  /** memory_type under the name that later pool managers know. */
  readonly memory_architecture: string;
  readonly model_ref: string;
  readonly worker_type: string;
  readonly capabilities: readonly string[];
}

/** The kinds of work that a pool manager may send here. */
export const CAPABILITIES = ['text-gen'];

/** How long a pool manager may take to answer. */
const CALLBACK_TIMEOUT_MS = 10_000;

/**
 * A callback URL with this host and port means that no callback is sent. It serves to try a worker without a pool
 * manager.
 */
const TEST_MODE_HOST = 'localhost:9999';

/** A pool manager refused the worker, or did not answer. */
export class CallbackError extends Error {
  override readonly name = 'CallbackError';
}

/**
 * Tells the pool manager once that the worker is ready. There is no retry: whoever starts workers decides what a failure
 * means.
 */
export class ReadyCallback {
  readonly #url: string | undefined;
  readonly #log: Log;
  readonly #timeoutMs: number;
  #isSent = false;
  #fail: (error: CallbackError) => void = () => {};
  /** Resolves if the pool manager refuses or does not answer; otherwise it stays pending. */
  readonly failed = new Promise<CallbackError>((resolve) => {
    this.#fail = resolve;
  });

  /** url: undefined if there is no pool manager. */
  constructor(url: string | undefined, log: Log, timeoutMs = CALLBACK_TIMEOUT_MS) {
    this.#url = url;
    this.#log = log;
    this.#timeoutMs = timeoutMs;
  }

  /** Sends the message on the first call; later calls do nothing. Call it whenever the worker becomes ready. */
  async send(message: ReadyMessage): Promise<void> {
    const url = this.#url;
    if (url === undefined || this.#isSent) return;
    this.#isSent = true;
    if (new URL(url).host === TEST_MODE_HOST) {
      this.#log.info({ event: 'callback_skipped', msg: 'Test mode: skipping pool manager callback' });
      return;
    }
    try {
      const response = await post(url, message, this.#timeoutMs);
      if (!response.ok) throw new CallbackError(`Pool manager callback failed: ${response.status}`);
      this.#log.info({ event: 'callback_sent', status: response.status });
    } catch (error) {
      if (!(error instanceof CallbackError)) throw error;
      this.#fail(error);
    }
  }
}

async function post(url: string, message: ReadyMessage, timeoutMs: number): Promise<Response> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(message),
      // A redirect is not followed: only the configured address gets the message.
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
    });
    // The status says all. A body that breaks off changes nothing.
    response.body?.cancel().catch(() => undefined);
    return response;
  } catch (error) {
    throw new CallbackError(`Pool manager callback failed: ${faultOf(error, timeoutMs)}`, { cause: error });
  }
}

function faultOf(error: unknown, timeoutMs: number): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === 'TimeoutError') return `no answer within ${timeoutMs} ms`;
  // fetch's own message says only that it failed; its cause says why.
  return error.cause instanceof Error && error.cause.message !== '' ? error.cause.message : error.message;
}
