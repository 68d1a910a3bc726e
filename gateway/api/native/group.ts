import type { RouteGroup } from '../../server/route-group.ts';
import { jobOperations } from '../jobs.ts';
import { errorOfUnknownPath } from '../outside-answers.ts';
import { nativeErrorBody, nativeErrorSchema } from './errors.ts';
import { nativeOperations } from './operations.ts';

/** The native API, and every path that belongs to no other group. */
export const nativeGroup: RouteGroup = {
  name: 'native',
  paths: ['/*'],
  access: 'key',
  generating: ['/execute'],
  operations: [...nativeOperations, ...jobOperations],
  errorSchema: nativeErrorSchema,
  errorAnswer: (_, error) => {
    return { body: error.code === 'not_found' ? errorOfUnknownPath(error) : nativeErrorBody(error) };
  },
  hint: "The routes of OpenAI's API are under /v1: a client's base URL ends with it.",
};
