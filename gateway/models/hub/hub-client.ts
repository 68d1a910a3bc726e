/** Requests to a hub over HTTP: a file's description, and its bytes from an offset on. */

import { UsageError } from '../../errors/exit-code.ts';
import { causeOf, messageOf } from '../../errors/thrown.ts';
import { PullError } from '../pull-report.ts';
import { type HubFile, isGitId } from './hub-file.ts';

const MAX_REDIRECTS = 5;
const ANSWER_TIMEOUT_MS = 30_000;

/** Asks for uncompressed answers, so that sizes and ranges are those of the file. */
const IDENTITY = { 'accept-encoding': 'identity' };

const sha256Pattern = /^[0-9a-f]{64}$/;

export interface RemoteFile {
  readonly commit: string;
  /** Hash of the bytes: SHA-256, or git's blob id for a small file that is stored in git itself. */
  readonly hash: string;
  readonly bytes: number;
}

/** A fault that may be gone at the next attempt. */
export class TransferError extends Error {
  override readonly name = 'TransferError';
}

export class HubClient {
  readonly #endpoint: URL;
  readonly #token: string | undefined;

  /** token: sent to the endpoint's own origin and to no other host. */
  constructor(endpoint: string, token: string | undefined) {
    if (!/^https?:\/\//.test(endpoint) || !URL.canParse(endpoint))
      throw new UsageError(`The hub's address ${JSON.stringify(endpoint)} is not an http or https URL.`);
    this.#endpoint = new URL(endpoint);
    this.#token = token;
  }

  /** commit: by default the current one of main. Throws PullError. */
  async describe(file: HubFile, commit?: string): Promise<RemoteFile> {
    const remote = await this.find(file, commit);
    if (remote === undefined) throw new PullError(66, `${this.#endpoint.host} has no ${file.name}.`);
    return remote;
  }

  /** The same as describe(), but undefined if the hub has no such file. */
  async find(file: HubFile, wanted?: string): Promise<RemoteFile | undefined> {
    // The hub's own answer describes the file; the answer of the store that it redirects to does not.
    const response = await this.#send(this.#urlOf(file, wanted), 'HEAD', IDENTITY, (url) => this.#isOwn(url));
    await response.body?.cancel();
    if (response.status === 404) return undefined;
    const isRedirect = response.status >= 300 && response.status < 400;
    if (!response.ok && !isRedirect) throw this.#refusal(file, response);
    const { headers } = response;
    const commit = headers.get('x-repo-commit') ?? '';
    const hash = (headers.get('x-linked-etag') ?? headers.get('etag') ?? '').replace(/^(W\/)?"|"$/g, '');
    const bytes = Number(headers.get('x-linked-size') ?? headers.get('content-length') ?? Number.NaN);
    if (!isGitId(commit) || (wanted !== undefined && commit !== wanted)) {
      const what =
        wanted === undefined ? `which commit ${file.name} is of` : `that ${file.name} is of ${wanted}`;
      throw new PullError(69, `${this.#endpoint.host} does not say ${what}.`);
    }
    const isHash = sha256Pattern.test(hash) || (!isWeights(file) && isGitId(hash));
    if (!isHash || !Number.isSafeInteger(bytes) || bytes <= 0)
      throw new PullError(
        65,
        `${this.#endpoint.host} gives no hash or no size of ${file.name}, so its bytes cannot be checked.`,
      );
    return { commit, hash, bytes };
  }

  /**
   * Requests the file's bytes from `offset` on. If the store answers 200, it sends all of them. ifRange: the store's ETag
   * when the first bytes came; if the ETag has changed, the store sends the file from the start.
   */
  async fetch(
    file: HubFile,
    commit: string,
    range: { readonly offset: number; readonly ifRange: string | undefined },
  ): Promise<Response> {
    const headers: Record<string, string> = { ...IDENTITY };
    if (range.offset > 0 && range.ifRange !== undefined) {
      headers.range = `bytes=${range.offset}-`;
      headers['if-range'] = range.ifRange;
    }
    const response = await this.#send(this.#urlOf(file, commit), 'GET', headers, () => true);
    if (response.status === 200 || response.status === 206 || response.status === 416) return response;
    await response.body?.cancel();
    throw this.#refusal(file, response);
  }

  #urlOf({ owner, repo, path }: HubFile, revision = 'main'): URL {
    const base = this.#endpoint.href.replace(/\/$/, '');
    return new URL(`${base}/${owner}/${repo}/resolve/${revision}/${path}`);
  }

  #isOwn(url: URL): boolean {
    return url.origin === this.#endpoint.origin;
  }

  /** Follows redirects as far as mayFollow allows. It does so itself, because the token must not go to another host. */
  async #send(
    url: URL,
    method: 'GET' | 'HEAD',
    headers: Record<string, string>,
    mayFollow: (url: URL) => boolean,
  ): Promise<Response> {
    for (let redirects = 0; ; redirects++) {
      const response = await this.#sendOnce(url, method, headers);
      const location = response.headers.get('location');
      if (response.status < 300 || response.status >= 400 || location === null) return response;
      const next = new URL(location, url);
      if (!mayFollow(next)) return response;
      await response.body?.cancel();
      if (redirects === MAX_REDIRECTS)
        throw new PullError(69, `${url.host} redirects more than ${MAX_REDIRECTS} times.`);
      if (next.protocol !== 'https:' && next.protocol !== this.#endpoint.protocol)
        throw new PullError(69, `${url.host} redirects from https to ${next.protocol}//${next.host}.`);
      url = next;
    }
  }

  async #sendOnce(url: URL, method: string, headers: Record<string, string>): Promise<Response> {
    const authorization =
      this.#token !== undefined && this.#isOwn(url) ? { authorization: `Bearer ${this.#token}` } : {};
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), ANSWER_TIMEOUT_MS);
    try {
      return await fetch(url, {
        method,
        redirect: 'manual',
        headers: { ...headers, ...authorization },
        signal: timeout.signal,
      });
    } catch (error) {
      throw new TransferError(`${url.host} does not answer: ${reasonOf(error)}`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }

  #refusal(file: HubFile, { status }: Response): Error {
    const { host } = this.#endpoint;
    if (status === 404) return new PullError(66, `${host} has no ${file.name}.`);
    if (status === 401 || status === 403) {
      const what =
        this.#token === undefined
          ? 'set HF_TOKEN to a token that may read it'
          : 'the token in HF_TOKEN may not read it';
      return new PullError(
        69,
        `${host} answers ${status} to ${file.name}: it does not exist or is not public; if it exists, ${what}.`,
      );
    }
    if (status === 429 || status >= 500) return new TransferError(`${host} answers ${status}`);
    return new PullError(69, `${host} answers ${status} to ${file.name}.`);
  }
}

/** Weights are never stored in git itself. */
function isWeights({ path }: HubFile): boolean {
  return /\.(gguf|safetensors)$/.test(path);
}

/** The message of the error's cause, because fetch() itself only says "fetch failed". */
export function reasonOf(error: unknown): string {
  return messageOf(causeOf(error));
}
