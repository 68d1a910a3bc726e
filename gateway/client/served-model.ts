import * as z from 'zod';
import { UnavailableError } from '../errors/exit-code.ts';
import type { Server } from './server.ts';

const listSchema = z.object({ data: z.array(z.object({ id: z.string() })) });

/** The names of /v1/models. Throws what Server.get throws; UnavailableError for what is no list of models. */
export async function servedModels(server: Server): Promise<readonly string[]> {
  const { success, data } = listSchema.safeParse(await server.get('/v1/models'));
  if (!success) throw new UnavailableError(`${server.url}/v1/models did not answer with a list of models.`);
  return data.data.map(({ id }) => id);
}

/** The first of them. UnavailableError where there is none, which a server has that still loads. */
export async function firstModel(server: Server): Promise<string> {
  const [name] = await servedModels(server);
  if (name === undefined) throw new UnavailableError(`The server at ${server.url} has no model loaded yet.`);
  return name;
}
