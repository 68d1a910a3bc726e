import { Agent, request } from 'node:http';

/**
 * Requests a stream from an OpenAI completions API, and reports when each piece of the answer came. It parses events
 * only as far as necessary, since it runs on the processors that are measured.
 */

const agent = new Agent({ keepAlive: false });
const NOT_LAST = '"finish_reason":null';

export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, text: string) {
    super(`${status}: ${text.slice(0, 200)}`);
    this.status = status;
  }
}

/** Resolves once the stream has ended, with the number of tokens that the server reports. key: of the caller, if it needs one. */
export function ask(
  url: string,
  body: object,
  onPiece: (atMs: number) => void,
  signal?: AbortSignal,
  key?: string,
): Promise<number> {
  const payload = JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true } });
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(payload),
    ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
  };
  return new Promise((resolve, reject) => {
    const options = { method: 'POST', headers, agent, ...(signal === undefined ? {} : { signal }) };
    const asking = request(`${url}/v1/completions`, options, (response) => {
      response.setEncoding('utf8');
      response.on('error', reject);
      if (response.statusCode !== 200) {
        let text = '';
        response.on('data', (piece: string) => {
          text += piece;
        });
        response.on('end', () => reject(new Refusal(response.statusCode ?? 0, text)));
        return;
      }
      const stream = new Stream(onPiece);
      response.on('data', (piece: string) => {
        try {
          stream.push(piece, performance.now());
        } catch (error) {
          reject(error);
          asking.destroy();
        }
      });
      response.on('end', () => {
        if (stream.tokens === undefined) reject(new Error('a stream ended without its count of tokens'));
        else resolve(stream.tokens);
      });
    });
    asking.on('error', reject);
    asking.end(payload);
  });
}

/** A client goes on until the end, so all that it can bring is a failure. */
export async function never(client: Promise<void>): Promise<never> {
  await client;
  throw new Error('a client ended before the measurement');
}

class Stream {
  tokens: number | undefined;
  readonly #onPiece: (atMs: number) => void;
  #rest = '';

  constructor(onPiece: (atMs: number) => void) {
    this.#onPiece = onPiece;
  }

  push(piece: string, atMs: number): void {
    const events = (this.#rest + piece).split('\n\n');
    this.#rest = events.pop() ?? '';
    for (const event of events) {
      if (event.includes(NOT_LAST)) this.#onPiece(atMs);
      else if (event.includes('"completion_tokens":')) this.tokens = tokensOf(event);
      else if (event.startsWith('data: {"error"') || event.startsWith('error:')) throw new Error(event);
    }
  }
}

function tokensOf(event: string): number {
  return Number(/"completion_tokens":(\d+)/.exec(event)?.[1]);
}
