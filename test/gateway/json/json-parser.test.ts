import { inspect } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { bodyBounds, JsonFault, parseLosslessJson } from '../../../gateway/json/json-parser.ts';
import { Random } from '../../fixtures/random.ts';
import { recordedCases } from '../../fixtures/recorded-cases.ts';

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

recordedCases(test, import.meta.url, (line) => {
  try {
    const value = parseLosslessJson(line.replaceAll('⏎', '\n'));
    return typeof value === 'bigint' ? `${value}n` : inspect(value);
  } catch (error) {
    assert.instance(error, JsonFault);
    return (error as JsonFault).message;
  }
});

test('names that mean something to JavaScript are members like any other', () => {
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
