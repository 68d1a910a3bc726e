import { isLoopback, isOrigin } from '../../config/kinds.ts';

/** Origins of programs on the user's own machine: pages of its servers, and apps that are made of pages. */
export const LOCAL_ORIGINS: readonly string[] = [
  ...['http://localhost:*', 'http://127.0.0.1:*', 'http://[::1]:*'],
  ...['https://localhost:*', 'https://127.0.0.1:*', 'https://[::1]:*'],
  // Tauri's on Windows and Android; browsers take each name under localhost for this machine.
  ...['http://tauri.localhost', 'https://tauri.localhost'],
  ...['app://*', 'tauri://*', 'vscode-webview://*'],
];

/** The origins of web pages that may use this server. */
export class Origins {
  readonly #exact: ReadonlySet<string>;
  /** Scheme and name of the patterns that allow any port. */
  readonly #withAnyPort: ReadonlySet<string>;
  /** Schemes, with their slashes, of the patterns that allow any name. */
  readonly #withAnyName: readonly string[];

  /** patterns: in the form that isOriginPattern accepts. */
  constructor(patterns: readonly string[]) {
    this.#exact = new Set(patterns);
    this.#withAnyPort = new Set(
      patterns.filter((pattern) => pattern.endsWith(':*')).map((pattern) => pattern.slice(0, -2)),
    );
    this.#withAnyName = patterns
      .filter((pattern) => pattern.endsWith('://*'))
      .map((pattern) => pattern.slice(0, -1));
  }

  allow(origin: string): boolean {
    if (!isOrigin(origin)) return false;
    return (
      this.#exact.has(origin) ||
      this.#withAnyPort.has(origin.replace(/:\d+$/, '')) ||
      this.#withAnyName.some((scheme) => origin.startsWith(scheme))
    );
  }
}

/**
 * Whether a page came from this server itself: the same scheme, name and port. The scheme is always http, because this
 * server has no TLS. Origins of pages behind a TLS proxy are named by --cors-origins.
 */
export function isOwnOrigin(origin: string, host: string): boolean {
  const own = `http://${host}`;
  return isOrigin(origin) && URL.canParse(own) && new URL(own).origin === origin;
}

/**
 * The names that a request may call this server by. This prevents DNS rebinding: a web page can make its own name resolve
 * to this machine, and the browser then takes requests here for requests to the page's own server. Such requests still
 * carry the page's name in their Host header.
 */
export class HostNames {
  readonly #names: ReadonlySet<string>;

  constructor(names: readonly string[]) {
    this.#names = new Set(names.map((name) => name.toLowerCase()));
  }

  /**
   * authority: the Host header. localAddress: the address of this end of the connection. A client that uses it as the
   * name has not looked a name up, so it is allowed.
   */
  allow(authority: string, localAddress: string | undefined): boolean {
    const host = hostOf(authority);
    if (host === undefined) return false;
    return isLoopback(host) || this.#names.has(host) || host === localAddress?.replace(/^::ffff:/, '');
  }
}

/** Returns the name or address of `name:port` or `[address]:port`; undefined for anything else. */
function hostOf(authority: string): string | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^\s:/?#@[\]]+))(?::\d{1,5})?$/i.exec(authority);
  return (match?.[1] ?? match?.[2])?.toLowerCase();
}
