import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { strictSchema } from '../../../gateway/api/strict-schema.ts';

const test = suite('strict-schema');

const text = { type: 'string' };

test('each object needs all that it names and has nothing else, wherever it stands', () => {
  const point = { type: 'object', properties: { x: { type: 'number' } } };
  const strictPoint = { ...point, required: ['x'], additionalProperties: false };
  const schema = {
    description: 'A place.',
    properties: {
      name: { ...text, default: 'Rome', maxLength: 9 },
      points: { type: 'array', items: point, minItems: 1 },
      best: { anyOf: [{ $ref: '#/$defs/point' }, { type: 'null' }] },
      kind: { enum: ['a', null] },
      none: { type: 'object', properties: {} },
      old: { type: ['object', 'null'], properties: { required: text, $ref: text } },
    },
    required: ['name'],
    $defs: { point },
  };
  assert.equal(strictSchema(schema), {
    ...schema,
    properties: {
      ...schema.properties,
      points: { type: 'array', items: strictPoint, minItems: 1 },
      none: { type: 'object', properties: {}, required: [], additionalProperties: false },
      old: { ...schema.properties.old, required: ['required', '$ref'], additionalProperties: false },
    },
    required: ['name', 'points', 'best', 'kind', 'none', 'old'],
    additionalProperties: false,
    $defs: { point: strictPoint },
  });
});

test('a schema that is strict stays as it is', () => {
  const schema = { type: 'object', properties: { a: text }, required: ['a'], additionalProperties: false };
  assert.equal(strictSchema(schema), schema);
});

test('a schema that allows unlisted values has no strict form', () => {
  const inside = (member: unknown) => ({ type: 'object', properties: { a: member } });
  const open: object[] = [
    { type: 'object' },
    { $ref: '#/$defs/a', $defs: { a: inside(text) } },
    { ...inside(text), additionalProperties: true },
    { ...inside(text), additionalProperties: text },
    { ...inside(text), patternProperties: { b: text } },
    { ...inside(text), required: ['b'] },
    { ...inside(text), anyOf: [inside(text)] },
    { ...inside(text), $defs: { b: { type: 'object' } } },
    { ...inside(text), $defs: [] },
    inside({}),
    inside(true),
    inside({ description: 'Anything.' }),
    inside({ type: 'object' }),
    inside({ type: ['object', 'null'] }),
    inside({ type: 'array' }),
    inside({ type: 'array', items: {} }),
    inside({ type: 'array', items: [text] }),
    inside({ type: 'array', prefixItems: [text], items: text }),
    inside({ ...inside(text), allOf: [inside(text)] }),
    inside({ type: 'string', oneOf: [text, { type: 'string' }] }),
    inside({ anyOf: [text, { type: 'object' }] }),
    inside({ $ref: 'https://example.com/a' }),
    inside({ $ref: '#/$defs/none' }),
    { ...inside({ $ref: '#/$defs/b', ...inside(text) }), $defs: { b: inside(text) } },
    inside({ $ref: '#/else/where' }),
  ];
  for (const schema of open) assert.is(strictSchema(schema), undefined, JSON.stringify(schema));
});

test('a schema with a keyword that OpenAI excludes has no strict form, at any level', () => {
  const excluded = [
    ...['patternProperties', 'propertyNames', 'minProperties', 'maxProperties', 'unevaluatedProperties'],
    ...['dependentRequired', 'dependentSchemas', 'dependencies', 'prefixItems', 'additionalItems'],
    ...['contains', 'unevaluatedItems', 'allOf', 'oneOf', 'not', 'if', 'then', 'else'],
    ...['$dynamicRef', '$recursiveRef'],
  ];
  const object = { type: 'object', properties: { a: text } };
  assert.ok(strictSchema({ ...object, properties: { inner: object } }));
  for (const keyword of excluded) {
    assert.is(strictSchema({ ...object, [keyword]: 1 }), undefined, keyword);
    const inner = { ...object, [keyword]: 1 };
    assert.is(strictSchema({ ...object, properties: { inner } }), undefined, `${keyword} of a member`);
  }
});

test('endless recursion has no strict form; optional recursion has', () => {
  const list = (next: object) => ({ type: 'object', properties: { value: text, next } });
  const self = { $ref: '#' };
  const other = { type: 'object', properties: { back: self } };
  for (const endless of [
    list(self),
    list({ anyOf: [self, { $ref: '#/properties/next' }] }),
    list({ type: 'array', items: self, minItems: 1 }),
    { ...list({ $ref: '#/$defs/other' }), $defs: { other } },
  ])
    assert.is(strictSchema(endless), undefined, JSON.stringify(endless));
  for (const ending of [
    list({ anyOf: [self, { type: 'null' }] }),
    list({ type: 'array', items: self }),
    list({ type: ['object', 'null'], properties: { next: self } }),
    { ...list({ anyOf: [{ $ref: '#/$defs/other' }, text] }), $defs: { other } },
  ])
    assert.ok(strictSchema(ending), JSON.stringify(ending));
});

test('a chain of references may be long, and may end in itself', () => {
  const numLinks = 2000;
  const chain = (last: object) => {
    const links = Array.from({ length: numLinks }, (_, index) => {
      const next = index + 1 < numLinks ? { $ref: `#/$defs/d${index + 1}` } : last;
      return [`d${index}`, { type: 'object', properties: { next } }];
    });
    return { type: 'object', properties: { a: { $ref: '#/$defs/d0' } }, $defs: Object.fromEntries(links) };
  };
  assert.ok(strictSchema(chain(text)));
  for (const end of ['#', '#/$defs/d0', `#/$defs/d${numLinks - 1}`])
    assert.is(strictSchema(chain({ $ref: end })), undefined, end);
  assert.ok(strictSchema(chain({ anyOf: [{ $ref: '#' }, text] })));
});

test('a schema that would be visited too often has no strict form', () => {
  const names = Array.from({ length: 1000 }, (_, index) => `d${index}`);
  const defs = names.map((name, index) => {
    const next = names[index + 1];
    return [name, next === undefined ? text : { anyOf: [{ $ref: `#/$defs/${next}` }] }];
  });
  const all = Object.fromEntries(names.map((name) => [name, { $ref: `#/$defs/${name}` }]));
  assert.is(strictSchema({ type: 'object', properties: all, $defs: Object.fromEntries(defs) }), undefined);
});

test('a schema whose references make too many of a few has no strict form, and takes no time', () => {
  const names = Array.from({ length: 40 }, (_, index) => `d${index}`);
  const levels = names.map((name, index) => {
    const next = names[index + 1];
    const each = next === undefined ? { $ref: '#' } : { $ref: `#/$defs/${next}` };
    return [name, { anyOf: [each, each] }];
  });
  const schema = { type: 'object', properties: { a: { $ref: '#/$defs/d0' } } };
  assert.is(strictSchema({ ...schema, $defs: Object.fromEntries(levels) }), undefined);
});

test.run();
