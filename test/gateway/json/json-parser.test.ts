import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { bodyBounds, JsonFault, parseLosslessJson } from '../../../gateway/json/json-parser.ts';
import { Random } from '../../fixtures/random.ts';

const test = suite('json-parser');

function faultOf(text: string): string {
  try {
    parseLosslessJson(text);
  } catch (error) {
    assert.instance(error, JsonFault, text.slice(0, 50));
    return (error as JsonFault).message;
  }
  throw new Error(`it takes ${text.slice(0, 50)}`);
}

test('integers come without loss, others as numbers', () => {
  const exact: [string, number | bigint][] = [
    ['0', 0],
    ['-0', -0],
    ['9007199254740991', 2 ** 53 - 1],
    ['9007199254740993', 2n ** 53n + 1n],
    ['18446744073709551615', 2n ** 64n - 1n],
    ['-9223372036854775808', -(2n ** 63n)],
    ['123456789012345', 123_456_789_012_345],
    ['1e3', 1000],
    ['-1.5E-2', -0.015],
    ['0.1', 0.1],
    ['1e999', Number.POSITIVE_INFINITY],
    ['9'.repeat(100_000), Number.POSITIVE_INFINITY],
  ];
  for (const [text, value] of exact) assert.is(parseLosslessJson(text), value, text.slice(0, 50));
});

test('errors name their place and quote at most one character', () => {
  assert.is(faultOf(''), 'expected a value at position 0, found the end of the text');
  assert.is(faultOf('{"a":1 secret}'), 'expected a comma or the end of the object at position 7, found "s"');
  assert.is(faultOf('[1,]'), 'expected a value at position 3, found "]"');
  assert.is(faultOf('[] []'), 'expected the end of the text at position 3, found "["');
  assert.is(faultOf('{1:2}'), 'expected the name of a member at position 1, found "1"');
  assert.is(faultOf('{"a" 2}'), 'expected a colon at position 5, found "2"');
  assert.is(faultOf('-x'), 'expected a digit at position 0, found "-"');
  assert.is(faultOf('"abc'), 'the string at position 0 has no end');
  assert.is(faultOf('["\\"]'), 'the string at position 1 has no end');
  for (const string of ['"\\x41"', '"\n"', '"\\u12"'])
    assert.is(faultOf(` ${string}`), 'the string at position 1 has a control character or an unknown escape');
});

test('a duplicate member is refused, whatever its name', () => {
  assert.is(faultOf('{"a":1,"a":1}'), 'the member "a" appears twice');
  assert.is(faultOf('{"__proto__":1,"__proto__":2}'), 'the member "__proto__" appears twice');
  assert.match(
    faultOf(`{"${'k'.repeat(100)}":1,"${'k'.repeat(100)}":1}`),
    /the member "k{64}…" appears twice/,
  );
  const parsed = parseLosslessJson('{"__proto__":{"polluted":1},"constructor":2,"toString":3}') as object;
  assert.equal(Object.keys(parsed), ['__proto__', 'constructor', 'toString']);
  assert.is(Object.getPrototypeOf(parsed), Object.prototype);
});

test('depth and members are bounded', () => {
  const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
  parseLosslessJson(nested(bodyBounds.depth));
  assert.is(faultOf(nested(bodyBounds.depth + 1)), 'it nests deeper than 64 brackets');
  assert.is(faultOf('{"a":'.repeat(100_000)), 'it nests deeper than 64 brackets');
  const members = (count: number): string =>
    `{${Array.from({ length: count }, (_, i) => `"${i}":0`).join()}}`;
  const most = members(bodyBounds.objectMembers);
  parseLosslessJson(most);
  assert.is(faultOf(members(bodyBounds.objectMembers + 1)), 'an object in it has more than 4096 members');
  const list = (last: number): string => `[${`${most},`.repeat(7)}${members(last)}]`;
  parseLosslessJson(list(bodyBounds.objectMembers - 8));
  assert.is(faultOf(list(bodyBounds.objectMembers - 7)), 'it has more than 32768 objects and members');
  assert.is(faultOf(`[${'{},'.repeat(bodyBounds.members)}{}]`), 'it has more than 32768 objects and members');
});

test('it accepts and refuses the same texts as JSON.parse, with equal values', () => {
  const random = new Random();
  const pieces = [
    '{',
    '}',
    '[',
    ']',
    ':',
    ',',
    '"',
    '\\',
    '"a"',
    '"é👋\\u00e9\\n"',
    ' ',
    '\t\n',
    '0',
    '1',
    '-',
    '.',
    'e',
    '+',
  ];
  pieces.push(
    'true',
    'false',
    'null',
    'nul',
    '12',
    '1.5e3',
    '"b":',
    '{"c":1}',
    '[1,2]',
    '\ud800',
    '\u0000',
    '"\\ud800"',
  );
  let numTaken = 0;
  for (let run = 0; run < 30_000; run++) {
    let text = run % 2 === 0 ? JSON.stringify(randomValue(random, 0)) : '';
    if (run % 4 === 2) {
      const at = random.below(text.length + 1);
      text = text.slice(0, at) + random.pick(pieces) + text.slice(at + random.below(3));
    }
    if (run % 2 === 1) for (let i = random.below(8); i >= 0; i--) text += random.pick(pieces);
    const place = `seed ${random.seed}, run ${run}: ${JSON.stringify(text)}`;
    const expected = attempt(() => JSON.parse(text) as unknown);
    const got = attempt(() => parseLosslessJson(text));
    // If a key occurs twice, JSON.parse takes the last one.
    if (expected !== undefined && got === undefined) assert.match(faultOf(text), 'appears twice', place);
    else assert.equal(got, expected, place);
    if (got !== undefined) numTaken++;
  }
  assert.ok(numTaken > 6_000);
});

function attempt(parse: () => unknown): { value: unknown } | undefined {
  try {
    return { value: parse() };
  } catch (error) {
    assert.ok(error instanceof SyntaxError || error instanceof JsonFault, String(error));
    return undefined;
  }
}

function randomValue(random: Random, depth: number): unknown {
  const kind = random.below(depth < 4 ? 8 : 6);
  if (kind === 0) return random.below(2) === 0;
  if (kind === 1) return null;
  if (kind === 2) return random.below(1e6) - 5e5;
  if (kind === 3) return (random.below(1e6) - 5e5) / 1024;
  if (kind < 6)
    return random.pick([
      '',
      'a',
      '"',
      '\\',
      '\\"',
      'é',
      '👋',
      '\n',
      '\u0000',
      '\ud800',
      'text with "quotes"',
    ]);
  const length = random.below(5);
  if (kind === 6) return Array.from({ length }, () => randomValue(random, depth + 1));
  return Object.fromEntries(Array.from({ length }, (_, i) => [`k${i}`, randomValue(random, depth + 1)]));
}

test.run();
