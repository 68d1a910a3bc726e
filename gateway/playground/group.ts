import { nativeGroup } from '../api/native/group.ts';
import type { RouteGroup } from '../server/route-group.ts';
import { type Playground, pathsOfPage, playgroundRoutes } from './routes.ts';

/** The page, for everybody; its errors are those of paths that are no API's. */
export function pageGroup(playground: Playground): RouteGroup {
  return {
    ...nativeGroup,
    name: 'playground',
    paths: pathsOfPage(playground),
    access: 'everybody',
    generating: [],
    routes: [() => playgroundRoutes(playground)],
  };
}
