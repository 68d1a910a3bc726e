import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parseLosslessJson } from '../../../gateway/json/json-parser.ts';
import { jsonText } from '../../../gateway/json/json-values.ts';

const test = suite('json text');

test('parsed text is written back with its order, nulls, escapes and digits', () => {
  for (const text of [
    '{"b":1,"a":[null,true,-0.5,"\\"\\\\\\n é"],"const":null}',
    '{"maximum":18446744073709551615,"minimum":-9223372036854775808}',
    '{"__proto__":{"x":[]},"a b":{}}',
    '"text"',
  ])
    assert.is(jsonText(parseLosslessJson(text)), text);
});

test('a number beyond a double stays one', () => {
  assert.is(jsonText(parseLosslessJson('[1e400,-1e400]')), '[1e999,-1e999]');
});

test.run();
