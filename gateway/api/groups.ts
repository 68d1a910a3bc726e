import type { RouteGroup } from '../server/route-group.ts';
import { anthropicGroup } from './anthropic/routes.ts';
import { nativeGroup } from './native/routes.ts';
import { ollamaGroup } from './ollama/routes.ts';
import { openAiGroup } from './openai/routes.ts';
import { operatorGroup, probeGroup } from './operator/routes.ts';

/** All groups of routes. A path belongs to the first group that has it. */
export const routeGroups: readonly RouteGroup[] = [
  probeGroup,
  operatorGroup,
  anthropicGroup,
  openAiGroup,
  ollamaGroup,
  nativeGroup,
];
