import { type Context, Hono } from 'hono';
import * as z from 'zod';
import { nativeGroup } from '../api/native/routes.ts';
import { ApiError } from '../errors/api-error.ts';
import type { Answer, Operation, RouteGroup } from '../server/route-group.ts';
import type { PageFile } from './built-page.ts';
import type { Playground } from './playground.ts';

/**
 * The page may load scripts, styles and images from this server only and send requests only to it. Inline code is not allowed,
 * nor is embedding the page in a frame.
 */
const POLICY = [
  "default-src 'none'",
  ...['script-src', 'style-src', 'img-src', 'connect-src'].map((kind) => `${kind} 'self'`),
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const YEAR_SEC = 31_536_000;

/** The paths that need no key: the page has nothing that is not in the sources, and asks for a key itself. */
function pathsOfPage({ page }: Playground): readonly string[] {
  return ['/', ...(page?.keys() ?? [])];
}

function playgroundRoutes({ page }: Playground): Hono {
  const app = new Hono();
  if (page === undefined) {
    app.get('/', () => {
      const message = 'The playground was not built: run make.';
      throw new ApiError({ status: 404, code: 'not_found', message });
    });
  }
  for (const [path, file] of page ?? []) app.get(path, (c) => answerFile(c, file));
  return app;
}

function answerFile(c: Context, { content, type, etag, isImmutable }: PageFile): Response {
  const headers = {
    'content-type': type,
    'content-security-policy': POLICY,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': isImmutable ? `public, max-age=${YEAR_SEC}, immutable` : 'no-cache',
    etag,
  };
  const known = c.req.header('if-none-match')?.split(',') ?? [];
  if (known.some((tag) => tag.trim().replace(/^W\//, '') === etag)) return c.body(null, 304, headers);
  return c.body(content, 200, { ...headers, 'content-length': String(content.length) });
}

const TEXT = { whole: z.string() };

const page: Answer = { description: 'The playground.', content: { 'text/html': TEXT } };
const file: Answer = {
  description: 'A file of the playground.',
  content: { 'text/javascript': TEXT, 'text/css': TEXT, 'image/svg+xml': TEXT },
};

const operations: readonly Operation[] = [
  {
    method: 'get',
    path: '/',
    summary: 'The playground: a chat page for browsers',
    answers: { 200: page },
  },
  {
    method: 'get',
    path: '/playground/{name}',
    summary: 'A file that the playground loads',
    answers: { 200: file },
  },
];

/** The route group of the page, which needs no key. Its errors have the form of the native API. */
export function pageGroup(playground: Playground): RouteGroup {
  return {
    ...nativeGroup,
    name: 'playground',
    paths: pathsOfPage(playground),
    access: 'everybody',
    generating: [],
    operations,
    routes: () => playgroundRoutes(playground),
  };
}
