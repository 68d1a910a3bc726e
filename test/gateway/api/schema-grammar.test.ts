import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { argumentsSchema } from '../../../gateway/api/schema-grammar.ts';

const test = suite('schema-grammar');

test('arguments are an object, of nothing where nothing is said', () => {
  assert.equal(argumentsSchema(undefined, false), { type: 'object', properties: {} });
  assert.equal(argumentsSchema({ properties: { a: {} } }, true), { type: 'object', properties: { a: {} } });
  const referring = { $ref: '#/$defs/a', $defs: { a: { type: 'object' } } };
  assert.equal(argumentsSchema(referring, true), referring);
});

test('unless strict, an object without named properties and a list of undescribed items may have any', () => {
  const schema = {
    type: 'object',
    properties: {
      free: { type: 'object' },
      list: { type: ['array', 'null'], default: [{ type: 'object' }] },
      default: { type: 'object' },
      named: { type: 'object', properties: {} },
      closed: { type: 'object', additionalProperties: false },
      strings: { type: 'array', items: { type: 'string' } },
      either: { anyOf: [{ type: 'object' }, { type: 'null' }] },
    },
    required: ['free'],
  };
  assert.is(argumentsSchema(schema, true), schema);
  const open = { additionalProperties: true, type: 'object' };
  assert.equal(argumentsSchema(schema, false), {
    ...schema,
    properties: {
      ...schema.properties,
      free: open,
      list: { items: true, ...schema.properties.list },
      default: open,
      either: { anyOf: [open, { type: 'null' }] },
    },
  });
});

test.run();
