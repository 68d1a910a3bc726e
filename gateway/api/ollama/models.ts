import { createHash } from 'node:crypto';
import type { Handler } from 'hono';
import * as z from 'zod';
import { infillMarks } from '../../calls/infill.ts';
import { hasThinking } from '../../calls/thinking.ts';
import { hasTools } from '../../calls/tool-offer.ts';
import { findModel, readServed } from '../../calls/use-model.ts';
import { ApiError } from '../../errors/api-error.ts';
import { JSON_TYPE } from '../../json/json-values.ts';
import type { Model } from '../../models/model.ts';
import { isResident, memoryOf, type ServedModel, servedName, tagged } from '../../models/model-registry.ts';
import { isEncoder } from '../../runner/runner.ts';
import { LINES_TYPE, type RouteDeps } from '../../server/route-group.ts';
import { parseBody } from '../body.ts';
import * as fields from '../fields.ts';
import { ANYTHING, ignoredFields } from '../fields.ts';
import { readJsonText } from '../json.ts';

const detailsSchema = z.object({
  format: z.enum(['gguf', 'safetensors']),
  family: z.string(),
  families: z.array(z.string()),
  quantization_level: z.string().optional(),
});

const nameMembers = { name: z.string(), model: z.string(), digest: z.string() };

const tag = z.object({
  ...nameMembers,
  modified_at: z.string(),
  size: z.int().optional(),
  details: detailsSchema.optional(),
});
export const tagsSchema = z.object({ models: z.array(tag) }).meta({ title: 'OllamaTags' });

const loaded = z.object({
  ...nameMembers,
  size: z.int(),
  details: detailsSchema,
  size_vram: z.int(),
  context_length: z.int(),
});
export const psSchema = z.object({ models: z.array(loaded) }).meta({ title: 'OllamaPs' });

export const showSchema = z
  .object({
    modified_at: z.string(),
    details: detailsSchema,
    model_info: z.record(z.string(), z.union([z.string(), z.number()])),
    capabilities: z.array(z.enum(['completion', 'insert', 'tools', 'thinking', 'embedding'])),
  })
  .meta({ title: 'OllamaShow' });

export const pulledSchema = z.object({ status: z.literal('success') }).meta({ title: 'OllamaPulled' });

/** The model's name in a request, under either name that the field has had. */
const nameFields = {
  model: fields.nonEmpty('model').optional(),
  name: fields.nonEmpty('name').optional(),
};

/** In JSON Schema: at least one of the fields is required. */
export const nameRequired = { anyOf: [{ required: ['model'] }, { required: ['name'] }] };

function namedModel(
  { model, name }: { readonly model?: string | undefined; readonly name?: string | undefined },
  ctx: fields.Context,
): string {
  const asked = model ?? name;
  if (asked !== undefined) return asked;
  fields.refuseMissing(ctx, ['model']);
  return z.NEVER;
}

export const showBody = z
  .strictObject({ ...nameFields, ...ignoredFields({ verbose: ANYTHING }) })
  .transform(namedModel);

/** GET /api/tags. Properties that are unknown are left out. */
export function tags(deps: RouteDeps): Handler {
  return (c) => {
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
    return c.json({ models: entries } satisfies z.infer<typeof tagsSchema>);
  };
}

export function running(deps: RouteDeps): Handler {
  return (c) => {
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
    return c.json({ models: entries } satisfies z.infer<typeof psSchema>);
  };
}

export function showing(deps: RouteDeps): Handler {
  return async (c) => {
    const name = parseBody(showBody, await readJsonText(c));
    const model = await readServed(findModel(name, deps));
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
        ...(isEncoder(architecture) ? [] : ['completion' as const]),
        ...(infillMarks(tokenizer) === undefined ? [] : ['insert' as const]),
        ...(hasTools(model) ? ['tools' as const] : []),
        ...(hasThinking(model) ? ['thinking' as const] : []),
        // Every model can make embeddings here. Like Ollama's, the list has "embedding" only if the model's file names a
        // pooling.
        ...(pooling === undefined ? [] : ['embedding' as const]),
      ],
    } satisfies z.infer<typeof showSchema>);
  };
}

/** The digest stands for Ollama's, by which clients cache what they know of a model: another file has another one. */
function namesOf({
  names,
  created,
}: Pick<ServedModel, 'names' | 'created'>): z.infer<z.ZodObject<typeof nameMembers>>[] {
  const digest = createHash('sha256').update(`${names[0]}\n${created}`).digest('hex');
  return names.map((name) => ({ name: tagged(name), model: tagged(name), digest }));
}

/** created: seconds since 1970. */
function modifiedAt(created: number): string {
  return new Date(created * 1000).toISOString();
}

function details({ path, architecture, quantKind }: Model): z.infer<typeof detailsSchema> {
  return {
    format: path.endsWith('.gguf') ? 'gguf' : 'safetensors',
    family: architecture,
    families: [architecture],
    ...(quantKind === undefined ? {} : { quantization_level: quantKind }),
  };
}

export const pullBody = z
  .strictObject({
    ...nameFields,
    stream: z.boolean().default(true),
    ...ignoredFields({ insecure: ANYTHING }),
  })
  .transform((body, ctx) => ({ name: namedModel(body, ctx), isStream: body.stream }));

/**
 * POST /api/pull. Nothing is fetched: a client that pulls before it asks wants to know whether the model is there. The
 * stream has only its last line, because no progress line would be true.
 */
export function pulling(deps: RouteDeps): Handler {
  return async (c) => {
    const { name, isStream } = parseBody(pullBody, await readJsonText(c));
    const { names } = deps.models;
    if (!names.includes(servedName(name, names))) throw notFound(name);
    const line = JSON.stringify({ status: 'success' } satisfies z.infer<typeof pulledSchema>);
    return isStream
      ? c.body(`${line}\n`, 200, { 'content-type': LINES_TYPE })
      : c.body(line, 200, { 'content-type': JSON_TYPE });
  };
}

function notFound(name: string): ApiError {
  return new ApiError({
    status: 404,
    code: 'model_not_found',
    param: 'model',
    message: `Model ${JSON.stringify(name)} not found; models are not downloaded over HTTP. Run "runnel pull NAME" on the server's machine, and serve it.`,
  });
}
