import { isLoopback } from '../../config/kinds.ts';

/**
 * The names a request may call this server by. A web page can have its own name resolve to this machine, and its
 * requests then look like those of the page's server to the browser; they still carry the page's name.
 */
export class HostNames {
  readonly #names: ReadonlySet<string>;

  constructor(names: readonly string[]) {
    this.#names = new Set(names.map((name) => name.toLowerCase()));
  }

  /**
   * authority: the Host header. localAddress: of this end of the connection; a client that calls us by it has looked
   * no name up.
   */
  allow(authority: string, localAddress: string | undefined): boolean {
    const host = hostOf(authority);
    if (host === undefined) return false;
    return isLoopback(host) || this.#names.has(host) || host === localAddress?.replace(/^::ffff:/, '');
  }
}

/** The name or address of `name:port` or `[address]:port`; undefined for anything else. */
function hostOf(authority: string): string | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^\s:/?#@[\]]+))(?::\d{1,5})?$/i.exec(authority);
  return (match?.[1] ?? match?.[2])?.toLowerCase();
}
