import { once } from 'node:events';
import { Agent, type IncomingMessage, request } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import * as z from 'zod';
import { ExitCode } from '../errors/exit-code.ts';
import { UnavailableError } from '../errors/thrown.ts';
import { escapeControls } from '../system/printable.ts';

/** The limit of an answer that is read as a whole. */
const MAX_ANSWER_BYTES = 2 ** 22;
/** The most characters of a server's own message in an error. */
const MAX_REASON_CHARS = 500;

interface ServerOptions {
  /** http://HOST:PORT, optionally with /v1 behind it, or unix:PATH. */
  readonly url: string;
  readonly key: string | undefined;
  /** A request fails after this many milliseconds without anything from the server. */
  readonly silenceMs: number;
}

/** A body that is sent as it is. */
export class RawBody {
  readonly type: string;
  readonly numBytes: number;
  readonly pieces: AsyncIterable<Uint8Array>;

  constructor(type: string, numBytes: number, pieces: AsyncIterable<Uint8Array>) {
    this.type = type;
    this.numBytes = numBytes;
    this.pieces = pieces;
  }
}

/** A client of a server with OpenAI's API. */
export class Server {
  readonly url: string;
  readonly #base: URL;
  readonly #socketPath: string | undefined;
  readonly #key: string | undefined;
  readonly #silenceMs: number;
  readonly #agent: Agent;

  constructor({ url, key, silenceMs }: ServerOptions) {
    this.url = url.replace(/\/v1$/, '');
    this.#socketPath = url.startsWith('unix:') ? url.slice('unix:'.length) : undefined;
    this.#base = new URL(this.#socketPath === undefined ? this.url : 'http://localhost');
    this.#key = key;
    this.#silenceMs = silenceMs;
    this.#agent =
      this.#base.protocol === 'https:' ? new TlsAgent({ keepAlive: true }) : new Agent({ keepAlive: true });
  }

  /** The body of a GET, parsed as JSON. Same errors as send(), and UnavailableError if it is not JSON. */
  get(path: string, signal?: AbortSignal): Promise<unknown> {
    return this.ask('GET', path, undefined, signal);
  }

  /** The answer to a request, parsed as JSON. Same errors as get(). */
  async ask(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<unknown> {
    const text = await readText(await this.send(method, path, body, signal), this.url);
    try {
      return JSON.parse(text);
    } catch {
      throw new UnavailableError(`${this.url}${path} did not answer with JSON.`);
    }
  }

  /**
   * Sends a request and returns a successful response, whose body is still to be read. Throws RefusedError for another status,
   * UnavailableError if no server answers, and the signal's error if it aborts.
   */
  async send(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<IncomingMessage> {
    const raw = body === undefined || body instanceof RawBody ? body : jsonBody(body);
    const call = this.#base.protocol === 'https:' ? tlsRequest : request;
    const sent = call(new URL(this.#base.pathname.replace(/\/$/, '') + path, this.#base), {
      method,
      agent: this.#agent,
      timeout: this.#silenceMs,
      ...(this.#socketPath === undefined ? {} : { socketPath: this.#socketPath }),
      ...(signal === undefined ? {} : { signal }),
      headers: {
        ...(raw === undefined ? {} : { 'content-type': raw.type, 'content-length': raw.numBytes }),
        ...(this.#key === undefined ? {} : { authorization: `Bearer ${this.#key}` }),
      },
    });
    const silence = `The server at ${this.url} was silent for ${this.#silenceMs / 1000} s.`;
    sent.on('timeout', () => sent.destroy(new UnavailableError(silence)));
    let response: IncomingMessage;
    try {
      const answered = once(sent, 'response');
      if (raw === undefined) sent.end();
      // A server that refuses the body reads no more of it.
      else pipeline(raw.pieces, sent).catch(() => {});
      [response] = (await answered) as [IncomingMessage];
    } catch (error) {
      if (signal?.aborted || error instanceof UnavailableError) throw error;
      throw new UnavailableError(`No server answers at ${this.url}: ${reasonOf(error)}.`);
    }
    const { statusCode = 0 } = response;
    if (statusCode >= 200 && statusCode < 300) return response;
    const said = reasonIn(await readText(response, this.url).catch(() => ''));
    throw new RefusedError(statusCode, `The server at ${this.url} answered ${statusCode}${said}`);
  }

  /** Closes idle connections, which would otherwise keep the process from ending. */
  close(): void {
    this.#agent.destroy();
  }
}

function jsonBody(body: unknown): RawBody {
  const bytes = Buffer.from(JSON.stringify(body));
  return new RawBody('application/json', bytes.length, Readable.from([bytes]));
}

export function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return message || code || String(error);
}

async function readText(response: IncomingMessage, url: string): Promise<string> {
  const parts: Buffer[] = [];
  let numBytes = 0;
  for await (const part of response) {
    numBytes += (part as Buffer).length;
    if (numBytes > MAX_ANSWER_BYTES)
      throw new UnavailableError(`${url} answered with more than ${MAX_ANSWER_BYTES} bytes.`);
    parts.push(part as Buffer);
  }
  return Buffer.concat(parts).toString('utf8');
}

const errorSchema = z.object({ error: z.object({ message: z.string() }) });

/** The text behind the status in an error: the server's own message, if there is one. */
function reasonIn(text: string): string {
  let said = text;
  try {
    const { success, data } = errorSchema.safeParse(JSON.parse(text));
    if (success) said = data.error.message;
  } catch {
    // A body that is not JSON is shown as it is.
  }
  return said.trim() === '' ? '.' : `: ${escapeControls(said.trim().slice(0, MAX_REASON_CHARS))}`;
}

const listSchema = z.object({ data: z.array(z.object({ id: z.string() })) });

/**
 * The names listed by /v1/models. Throws the errors of Server.get(), and UnavailableError if the answer is not a list of
 * models.
 */
export async function servedModels(server: Server): Promise<readonly string[]> {
  const { success, data } = listSchema.safeParse(await server.get('/v1/models'));
  if (!success) throw new UnavailableError(`${server.url}/v1/models did not answer with a list of models.`);
  return data.data.map(({ id }) => id);
}

/** The first name of /v1/models. Throws UnavailableError if there is none, as with a server that is still loading. */
export async function firstModel(server: Server): Promise<string> {
  const [name] = await servedModels(server);
  if (name === undefined) throw new UnavailableError(`The server at ${server.url} has no model loaded yet.`);
  return name;
}

/** A server's answer whose status is no success. The message is a sentence with what the server said. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }

  /** The exit status that says what has to change: the caller's rights, the request, or the server. */
  get exitCode(): number {
    if (this.status === 401 || this.status === 403) return ExitCode.noPermission;
    const isBusy = this.status === 408 || this.status === 429;
    return this.status >= 400 && this.status < 500 && !isBusy ? ExitCode.usage : ExitCode.unavailable;
  }
}
