import { isOrigin } from '../../config/kinds.ts';

/** Origins of web pages that may ask. */
export class Origins {
  readonly #exact: ReadonlySet<string>;
  /** Each with its scheme, without a port. */
  readonly #withAnyPort: ReadonlySet<string>;

  /** patterns: as isOriginPattern takes them. */
  constructor(patterns: readonly string[]) {
    this.#exact = new Set(patterns);
    this.#withAnyPort = new Set(
      patterns.filter((pattern) => pattern.endsWith(':*')).map((pattern) => pattern.slice(0, -2)),
    );
  }

  allow(origin: string): boolean {
    if (!isOrigin(origin)) return false;
    return this.#exact.has(origin) || this.#withAnyPort.has(origin.replace(/:\d+$/, ''));
  }
}

/**
 * Whether a page came from this server itself: scheme, name and port. The scheme is http, as there is no TLS here: pages of a
 * proxy that has it are named by --cors-origins.
 */
export function isOwnOrigin(origin: string, host: string): boolean {
  const own = `http://${host}`;
  return isOrigin(origin) && URL.canParse(own) && new URL(own).origin === origin;
}
