import * as z from 'zod';
import { nativeGroup } from '../api/native/group.ts';
import type { Answer, Operation, RouteGroup } from '../server/route-group.ts';
import { type Playground, pathsOfPage, playgroundRoutes } from './routes.ts';

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
