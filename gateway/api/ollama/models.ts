import { createHash } from 'node:crypto';
import { Hono } from 'hono';
import * as z from 'zod';
import { hasThinking } from '../../calls/thinking.ts';
import { hasTools } from '../../calls/tool-offer.ts';
import { readModel } from '../../calls/use-model.ts';
import type { Model } from '../../models/model.ts';
import { isResident, memoryOf, type ServedModel } from '../../models/model-registry.ts';
import type { RouteDeps } from '../../server/route-group.ts';
import { version } from '../../system/version.ts';
import * as fields from '../fields.ts';
import { ANYTHING, inert } from '../inert.ts';
import { readJsonText } from '../json.ts';
import type { Details, Names, Ps, Show, Tags } from './answers.ts';
import { namedModel, nameFields, servedName, tagged } from './model-name.ts';

export const showSchema = z
  .strictObject({ ...nameFields, ...inert({ verbose: ANYTHING }) })
  .transform(namedModel);

/** Ollama's routes that list models. Properties that are unknown are left out. */
export function modelRoutes(deps: RouteDeps): Hono {
  const app = new Hono();

  app.get('/api/version', (c) => c.json({ version: version() }));

  app.get('/api/tags', (c) => {
    const entries = deps.models.all.flatMap((served) => {
      const { created, model, runner } = served;
      const { info } = runner.status();
      const known = {
        modified_at: modifiedAt(created),
        ...(info === undefined ? {} : { size: info.weightsBytes }),
        ...(model === undefined ? {} : { details: details(model) }),
      };
      return namesOf(served).map((names) => ({ ...names, ...known }));
    });
    return c.json({ models: entries } satisfies Tags);
  });

  app.get('/api/ps', (c) => {
    const entries = deps.models.all.flatMap((served) => {
      const { model, runner } = served;
      const status = runner.status();
      const { info } = status;
      if (model === undefined || info === undefined || !isResident(status)) return [];
      const memory = memoryOf(info);
      return namesOf(served).map((names) => ({
        ...names,
        size: memory.memory_bytes,
        details: details(model),
        size_vram: memory.vram_bytes,
        context_length: info.maxModelLen,
      }));
    });
    return c.json({ models: entries } satisfies Ps);
  });

  app.post('/api/show', async (c) => {
    const name = fields.parseBody(showSchema, await readJsonText(c));
    const model = await readModel(servedName(name, deps.models.names), deps);
    const { architecture, contextLength, pooling, tokenizer } = model;
    return c.json({
      modified_at: modifiedAt(model.created),
      details: details(model),
      model_info: {
        'general.architecture': architecture,
        'general.basename': model.id,
        [`${architecture}.context_length`]: contextLength,
        [`${architecture}.vocab_size`]: tokenizer.vocabSize,
      },
      capabilities: [
        'completion',
        ...(hasTools(model) ? ['tools' as const] : []),
        ...(hasThinking(model) ? ['thinking' as const] : []),
        // Every model can make embeddings here. Like Ollama's, the list has "embedding" only if the model's file names a
        // pooling.
        ...(pooling === undefined ? [] : ['embedding' as const]),
      ],
    } satisfies Show);
  });

  return app;
}

/** The digest stands for Ollama's, by which clients cache what they know of a model: another file has another one. */
function namesOf({ names, created }: Pick<ServedModel, 'names' | 'created'>): Names[] {
  const digest = createHash('sha256').update(`${names[0]}\n${created}`).digest('hex');
  return names.map((name) => ({ name: tagged(name), model: tagged(name), digest }));
}

/** created: seconds since 1970. */
function modifiedAt(created: number): string {
  return new Date(created * 1000).toISOString();
}

function details({ path, architecture, quantKind }: Model): Details {
  return {
    format: path.endsWith('.gguf') ? 'gguf' : 'safetensors',
    family: architecture,
    families: [architecture],
    ...(quantKind === undefined ? {} : { quantization_level: quantKind }),
  };
}
