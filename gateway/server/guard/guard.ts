import type { Context, Hono, MiddlewareHandler } from 'hono';
import { cors } from 'hono/cors';
import type { CacheSharing } from '../../config/serve-settings.ts';
import { ApiError } from '../../errors/api-error.ts';
import type { KeyCheck } from './api-keys.ts';
import { cacheSaltOf, digestOf, keptDigestOf } from './caller.ts';
import { HostNames, isOwnOrigin, LOCAL_ORIGINS, Origins } from './origins.ts';

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
export function addGuard(app: Hono, rules: GuardRules): void {
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
      const digest = digestOf(key);
      c.set('keyRight', holder.right);
      c.set('caller', holder.caller);
      c.set('keyDigest', digest);
      c.set('keptKeyDigest', () => keptDigestOf(key));
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
