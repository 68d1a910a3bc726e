import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { strictSchema } from '../../../gateway/api/strict-schema.ts';
import { recordedCases } from '../../fixtures/recorded-cases.ts';

const test = suite('strict-schema');

const text = { type: 'string' };

recordedCases(test, import.meta.url, (schema) => JSON.stringify(strictSchema(JSON.parse(schema))) ?? 'none');

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
