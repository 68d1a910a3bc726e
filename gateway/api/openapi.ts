import * as z from 'zod';
import { receiptSchema } from '../generation/receipt.ts';
import { JSON_TYPE } from '../json/json-values.ts';
import type { Answer, Content, Events, Operation, RouteGroup } from '../server/route-group.ts';
import { version } from '../system/version.ts';
import { bodyExamples } from './body-examples.ts';
import { Components, meaningOf } from './components.ts';

/** The OpenAPI 3.1 document (https://spec.openapis.org/oas/v3.1.1.html) of all routes. Each group describes its own. */
export function openApiDocument(groups: readonly RouteGroup[]): object {
  const components = new Components();
  const paths: Record<string, Record<string, unknown>> = {};
  const described = groups.flatMap((group) => group.operations.map((operation) => ({ group, operation })));
  for (const { group, operation } of described) {
    // A route that only says what to do instead.
    if (Object.keys(operation.answers).length === 0) continue;
    const { path, method } = operation;
    paths[path] = {
      ...paths[path],
      [method]: components.described(operationObject(operation, group), [path]),
    };
  }
  components.described(answerSchemaOf(receiptSchema.meta({ title: 'Receipt' })), []);
  return {
    openapi: '3.1.1',
    info: { title: 'Runnel', version: version(), license: LICENSE, description: DESCRIPTION },
    servers: [{ url: '/' }],
    tags: [...new Set(described.map(({ group }) => group.name))].map((name) => ({ name })),
    paths,
    components: {
      schemas: components.schemas,
      parameters: { correlationId: CORRELATION_ID, traceparent: TRACEPARENT },
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        apiKey: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
    },
  };
}

const LICENSE = { name: 'Apache-2.0', identifier: 'Apache-2.0' };

const DESCRIPTION = [
  'A member that is null counts as absent, at every depth of a body.',
  'A schema here says what a body may have; rules across fields, and those that depend on the model, are not in it.',
  'A key is needed only if the server was started with keys.',
].join(' ');

const CORRELATION_ID = {
  name: 'X-Correlation-Id',
  in: 'header',
  description: 'Returned in the answer and logged. An id of another form is replaced.',
  schema: { type: 'string', pattern: '^[A-Za-z0-9-]{1,64}$' },
};

const TRACEPARENT = {
  name: 'traceparent',
  in: 'header',
  description: 'W3C Trace Context, which is logged. An invalid value is ignored.',
  schema: { type: 'string' },
};

function operationObject(operation: Operation, group: RouteGroup): object {
  const { method, path, summary, body, headers = {}, query = {}, answers } = operation;
  const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    description: meaningOf(['path', name ?? '']),
    schema: { type: 'string' },
  }));
  const texts = (place: string, described: Readonly<Record<string, string>>): object[] =>
    Object.entries(described).map(([name, description]) => ({
      ...{ name, in: place, description },
      schema: { type: 'string' },
    }));
  const common = ['correlationId', 'traceparent'].map((name) => ({
    $ref: `#/components/parameters/${name}`,
  }));
  return {
    operationId: `${method}${path.replaceAll(/[^a-z0-9]+/g, '_')}`,
    tags: [group.name],
    summary,
    ...(group.access === 'everybody' ? { security: [] } : { security: [{}, { bearer: [] }, { apiKey: [] }] }),
    parameters: [...named, ...texts('query', query), ...texts('header', headers), ...common],
    ...(body === undefined ? {} : { requestBody: requestBody(operation, jsonSchemaOf(body)) }),
    responses: {
      ...Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, response(answer)])),
      default: {
        description: 'An error, by its status.',
        content: { [JSON_TYPE]: { schema: answerSchemaOf(group.errorSchema) } },
      },
    },
  };
}

function requestBody({ path, isBodyOptional = false, bodyTypes = [], isForm }: Operation, schema: object) {
  const types = isForm ? ['multipart/form-data'] : [JSON_TYPE, ...bodyTypes];
  return {
    required: !isBodyOptional,
    content: Object.fromEntries(types.map((type) => [type, { schema, example: bodyExamples[path] }])),
  };
}

function response({ description, content }: Answer): object {
  const described = Object.entries(content).map(([type, each]) => [type, contentObject(each)]);
  return { description, content: Object.fromEntries(described) };
}

/** x-itemSchema has the schema of each line or event of a stream, as OpenAPI 3.2's itemSchema does. */
function contentObject(content: Content): object {
  if ('whole' in content) return { schema: answerSchemaOf(content.whole) };
  if ('lines' in content) return { 'x-itemSchema': answerSchemaOf(content.lines) };
  return { 'x-itemSchema': eventSchema(content.events) };
}

/**
 * The form that OpenAPI 3.2 has for server-sent events:
 * https://spec.openapis.org/oas/v3.2.0.html#server-sent-event-streams.
 */
function eventSchema({ named = {}, unnamed, last }: Events): object {
  const data = (schema: z.ZodType): object => ({
    ...{ type: 'string', contentMediaType: 'application/json' },
    contentSchema: answerSchemaOf(schema),
  });
  const event = (properties: Record<string, object>): object => ({
    ...{ type: 'object', properties },
    required: Object.keys(properties),
  });
  return {
    oneOf: [
      ...Object.entries(named).map(([name, schema]) => event({ event: { const: name }, data: data(schema) })),
      ...(unnamed === undefined ? [] : [event({ data: data(unnamed) })]),
      ...(last === undefined ? [] : [event({ data: { const: last } })]),
    ],
  };
}

/**
 * The JSON Schema of a body before its defaults are filled in. Rules that are code are missing, except what a schema's
 * meta() says of them: a body that matches may still get a 400. null means absent and is left out everywhere.
 */
function jsonSchemaOf(schema: z.ZodType): Record<string, unknown> {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema }) => {
      const { def } = zodSchema._zod;
      // A value that is first read by code, and then checked by a schema that can be shown.
      if (def.type === 'pipe' && isAnything(def.in) && !isKind(def.out, 'transform'))
        Object.assign(jsonSchema, jsonSchemaOf(def.out as z.ZodType), { ...jsonSchema });
      if (def.type === 'default' && isShown(def.defaultValue)) jsonSchema.default = def.defaultValue;
    },
  });
  return json as Record<string, unknown>;
}

/** The JSON Schema of an answer. It forbids no further members, because answers may get more. */
function answerSchemaOf(schema: z.ZodType): object {
  const known = answerSchemas.get(schema);
  if (known !== undefined) return known;
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  answerSchemas.set(schema, json);
  return json;
}

/** Those of errors and of many events are in several routes. */
const answerSchemas = new WeakMap<z.ZodType, object>();

/** A schema that checks nothing, or by code alone. */
function isAnything(schema: z.core.$ZodType): boolean {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  if (def.type !== 'pipe') return def.type === 'unknown';
  return isKind(def.in, 'unknown') && isKind(def.out, 'transform');
}

function isKind(schema: z.core.$ZodType, type: string): boolean {
  return schema._zod.def.type === type;
}

function isShown(value: unknown): boolean {
  return ['string', 'number', 'boolean'].includes(typeof value) || Array.isArray(value);
}
