import type { Context, Hono, MiddlewareHandler } from 'hono';
import { cors } from 'hono/cors';
import { isLoopback, isOrigin } from '../../config/kinds.ts';
import type { CacheSharing } from '../../config/serve-settings.ts';
import { ApiError } from '../../errors/api-error.ts';
import type { KeyCheck } from './api-keys.ts';
import { cacheSaltOf, type KeyDigests } from './caller.ts';

/** Says who may use this server. */
export interface GuardRules {
  /** Names that this server is called by, besides those of loopback. */
  readonly hosts: readonly string[];
  /** Origins of web pages that may use this server, or patterns of them; none: LOCAL_ORIGINS, but not for operators' routes. */
  readonly corsOrigins: readonly string[];
  /**
   * Undefined if no keys are needed: everybody who can reach the address, which then is on this machine alone, may do
   * everything.
   */
  readonly apiKeys: KeyCheck | undefined;
  /** Whether holders of different keys share cached prefixes. Without keys all requests share them. */
  readonly cacheSharing: CacheSharing;
}

/** Lets programs on this machine in, with their pages, and no web pages of other sites. */
export const loopbackOnly: GuardRules = {
  hosts: [],
  corsOrigins: [],
  apiKeys: undefined,
  cacheSharing: 'per-key',
};

/** How long a browser may cache the answer to a preflight. */
const PREFLIGHT_MAX_AGE_SEC = 600;

/** Puts the checks before everything that is added to the app later, so that no body is read before they pass. */
export function addGuard(app: Hono, rules: GuardRules, digests: KeyDigests): void {
  app.use(async (c, next) => {
    c.set('keyDigests', digests);
    await next();
  });
  app.use(checkHost(new HostNames(rules.hosts)));
  const isListed = rules.corsOrigins.length > 0;
  const origins = new Origins(isListed ? rules.corsOrigins : LOCAL_ORIGINS);
  app.use(checkOrigin(origins, isListed));
  app.use(answerPages(origins));
  if (rules.apiKeys === undefined) return;
  app.use(checkKey(rules.apiKeys, rules.cacheSharing));
  app.use(requireAdmin);
}

function checkHost(names: HostNames): MiddlewareHandler {
  return async (c, next) => {
    const host = hostHeader(c);
    if (!names.allow(host, localAddress(c))) {
      throw forbidden(
        'host_not_allowed',
        `This server is not called ${JSON.stringify(host)}; its operator can add the name with --allowed-hosts.`,
      );
    }
    await next();
  };
}

/** opensOperators: whether the allowed origins may use the routes for operators too. */
function checkOrigin(allowed: Origins, opensOperators: boolean): MiddlewareHandler {
  return async (c, next) => {
    const origin = c.req.header('origin');
    const isOpen = opensOperators || c.get('group').access !== 'admin-key';
    const isAllowed =
      origin === undefined || (isOpen && allowed.allow(origin)) || isOwnOrigin(origin, hostHeader(c));
    if (!isAllowed) {
      throw forbidden(
        'origin_not_allowed',
        `Web pages of ${JSON.stringify(origin)} may not use this server; its operator can allow this origin with --cors-origins.`,
      );
    }
    await next();
  };
}

/** Answers preflights, and lets allowed pages read answers. Credentials of browsers, such as cookies, are never allowed. */
function answerPages(origins: Origins): MiddlewareHandler {
  const answer = cors({
    origin: (origin) => (origins.allow(origin) ? origin : null),
    allowMethods: ['GET', 'POST', 'DELETE'],
    exposeHeaders: [
      'x-request-id',
      'x-correlation-id',
      'x-should-retry',
      'x-runnel-ignored',
      'x-runnel-job-id',
      'x-runnel-tools',
      'retry-after',
      'retry-after-ms',
    ],
    maxAge: PREFLIGHT_MAX_AGE_SEC,
  });
  return async (c, next) => (c.req.header('origin') === undefined ? next() : answer(c, next));
}

function checkKey(keys: KeyCheck, sharing: CacheSharing): MiddlewareHandler {
  return async (c, next) => {
    if (c.get('group').access !== 'everybody') {
      const key = keyOf(c);
      const holder = key === undefined ? undefined : keys.holderOf(key);
      if (key === undefined || holder === undefined) {
        c.header('www-authenticate', 'Bearer');
        throw new ApiError({
          status: 401,
          code: 'invalid_api_key',
          message:
            key === undefined
              ? 'A key is needed: send the header "Authorization: Bearer KEY".'
              : 'This server does not know the key.',
        });
      }
      const digests = c.get('keyDigests');
      const digest = digests.of(key);
      c.set('keyRight', holder.right);
      c.set('caller', holder.caller);
      c.set('keyDigest', digest);
      c.set('keptKeyDigest', () => digests.keptOf(key));
      c.set('cacheSalt', cacheSaltOf(sharing, digest));
    }
    await next();
  };
}

const requireAdmin: MiddlewareHandler = async (c, next) => {
  if (c.get('group').access === 'admin-key' && c.get('keyRight') !== 'admin') {
    const message = `${c.req.path} is for operators: send an admin key, which is one in the file of --admin-keys-file.`;
    throw forbidden('admin_key_required', message);
  }
  await next();
};

function keyOf(c: Context): string | undefined {
  const bearer = /^Bearer +(\S+) *$/i.exec(c.req.header('authorization') ?? '')?.[1];
  return bearer ?? c.req.header('x-api-key');
}

/** A request without a socket has no Host header; its URL has the name. */
function hostHeader(c: Context): string {
  return c.req.header('host') ?? new URL(c.req.url).host;
}

function localAddress(c: Context): string | undefined {
  const env = c.env as { incoming?: { socket: { localAddress?: string } } } | undefined;
  return env?.incoming?.socket.localAddress;
}

function forbidden(code: string, message: string): ApiError {
  return new ApiError({ status: 403, code, message });
}

/** Origins of programs on the user's own machine: pages of its servers, and apps that are made of pages. */
const LOCAL_ORIGINS: readonly string[] = [
  ...['http://localhost:*', 'http://127.0.0.1:*', 'http://[::1]:*'],
  ...['https://localhost:*', 'https://127.0.0.1:*', 'https://[::1]:*'],
  // Tauri's on Windows and Android; browsers take each name under localhost for this machine.
  ...['http://tauri.localhost', 'https://tauri.localhost'],
  ...['app://*', 'tauri://*', 'vscode-webview://*'],
];

/** The origins of web pages that may use this server. */
class Origins {
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
function isOwnOrigin(origin: string, host: string): boolean {
  const own = `http://${host}`;
  return isOrigin(origin) && URL.canParse(own) && new URL(own).origin === origin;
}

/**
 * The names that a request may call this server by. This prevents DNS rebinding: a web page can make its own name resolve
 * to this machine, and the browser then takes requests here for requests to the page's own server. Such requests still
 * carry the page's name in their Host header.
 */
class HostNames {
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
