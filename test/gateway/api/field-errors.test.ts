import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import * as z from 'zod';
import { parseBody } from '../../../gateway/api/body.ts';
import * as fields from '../../../gateway/api/fields.ts';
import { ApiError, type FieldError } from '../../../gateway/errors/api-error.ts';
import { recordedCases } from '../../fixtures/recorded-cases.ts';

/**
 * The error for a value that a schema refuses names the field, says what it must be and what it is, in plain words, and
 * contains nothing private.
 */

const test = suite('field errors');

function errorsOf(schema: z.ZodType, body: unknown): readonly FieldError[] {
  try {
    parseBody(schema, body);
    return [];
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return error.fieldErrors;
  }
}

const sentencesOf = (schema: z.ZodType, body: unknown): string[] =>
  errorsOf(schema, body).map(({ message }) => message);

const everyKind = z.object({
  number: z.number().optional(),
  flag: z.boolean().optional(),
  text: z.string().optional(),
  list: z.array(z.string()).optional(),
  object: z.object({}).optional(),
  map: z.record(z.string(), z.number()).optional(),
  choice: z.enum(['a', 'b']).optional(),
});

recordedCases(test, import.meta.url, (line) => {
  const standsFor = new Map<unknown, unknown>([
    ['big', 10n ** 18n],
    ['bytes', new Uint8Array(1)],
  ]);
  const body = JSON.parse(line, (_, value) => standsFor.get(value) ?? value);
  return sentencesOf(everyKind, body).join('\n');
});

test('a missing or null field is reported as required', () => {
  const schema = z.strictObject({ a: z.string(), b: z.strictObject({ c: z.enum(['x']) }).optional() });
  assert.equal(errorsOf(schema, { a: null, b: { c: null } }), [
    { field: 'a', constraint: 'required', message: 'a is required' },
    { field: 'b.c', constraint: 'required', message: 'b.c is required' },
  ]);
});

test('numbers too large to be read without rounding are numbers', () => {
  const schema = z.strictObject({ float: fields.float('float', 0, 2), whole: fields.integer('whole', 0, 9) });
  assert.equal(sentencesOf(schema, { float: 10n ** 19n, whole: 10n ** 19n }), [
    'float must be at most 2.0 (got 10000000000000000000.0)',
    'whole must be at most 9 (got 10000000000000000000)',
  ]);
});

test('an error without a path gets the path of its field', () => {
  const item = z.unknown().superRefine((value, ctx) => {
    if (value !== 'good') fields.violated(ctx, { constraint: 'good' }, 'must be good');
  });
  assert.equal(errorsOf(z.strictObject({ list: z.array(item) }), { list: ['good', 'bad'] }), [
    { field: 'list.1', constraint: 'good', message: 'list.1 must be good' },
  ]);
});

test.run();
