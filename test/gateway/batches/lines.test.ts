import { isDeepStrictEqual } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { checkLines, type LineFault, maxLines, readLines } from '../../../gateway/batches/lines.ts';
import { Random } from '../../fixtures/random.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = suite('lines');

const folder = temporaryFolder();
const RULES = {
  endpoint: '/v1/completions',
  maxLineBytes: 200,
  parse: (bytes: Buffer): unknown => JSON.parse(bytes.toString()),
};

function lineOf(id: unknown, more: object = {}): string {
  return JSON.stringify({ custom_id: id, method: 'POST', url: '/v1/completions', body: {}, ...more });
}

function check(text: string, rules = RULES) {
  return checkLines(folder.write('lines.jsonl', text), rules);
}

test('lines of any length are read alike, whatever the pieces of the file, and a longer one than allowed is known', async () => {
  const random = new Random();
  for (let round = 0; round < 30; round += 1) {
    const lengths = Array.from({ length: 12 }, () => random.below(random.below(4) === 0 ? 200_000 : 300));
    const texts = lengths.map((length, index) => String.fromCharCode(97 + index).repeat(length));
    const path = folder.write('lines.jsonl', texts.join('\n') + (random.below(2) === 0 ? '\n' : ''));
    const read: (readonly [number, string])[] = [];
    for await (const { number, bytes, isLong } of readLines(path, 100_000))
      read.push([number, isLong ? 'long' : bytes.toString()]);
    const expected = texts.flatMap((text, index) =>
      text === '' ? [] : [[index + 1, text.length > 100_000 ? 'long' : text] as const],
    );
    assert.ok(isDeepStrictEqual(read, expected), `seed ${random.seed}`);
  }
});

test('a file of requests is counted, empty lines left out', async () => {
  assert.is(await check(`${lineOf('a')}\n\n  \n${lineOf('b')}`), 2);
});

test('a byte order mark in front of the file is no part of its first line', async () => {
  assert.is(await check(`\uFEFF${lineOf('a')}\n${lineOf('b')}`), 2);
});

test('each fault of a line is named, with its number and what to do', async () => {
  const cases: readonly (readonly [string, string, string | null, RegExp])[] = [
    ['nonsense', 'invalid_json_line', null, /^Line 2: it is not valid JSON in UTF-8\.$/],
    ['[1]', 'invalid_json_line', null, /^Line 2: it is not a JSON object\.$/],
    [
      lineOf(undefined),
      'missing_required_parameter',
      'custom_id',
      /^Line 2: custom_id is missing: it is a string of/,
    ],
    [lineOf(7), 'invalid_value', 'custom_id', /^Line 2: custom_id must be a string of 1 to 512/],
    [lineOf(''), 'invalid_value', 'custom_id', /custom_id must be a string/],
    [lineOf('b', { method: 'GET' }), 'invalid_value', 'method', /method must be "POST"/],
    [
      lineOf('b', { url: undefined }),
      'missing_required_parameter',
      'url',
      /url is missing: it is the batch's endpoint/,
    ],
    [
      lineOf('b', { url: '/v1/chat/completions' }),
      'mismatched_endpoint',
      'url',
      /url must be \/v1\/completions/,
    ],
    [lineOf('b', { body: [] }), 'invalid_value', 'body', /body must be an object/],
    [lineOf('a'), 'duplicate_custom_id', 'custom_id', /^Line 2: custom_id "a" is that of line 1 already/],
    [
      lineOf('b', { body: { prompt: 'x'.repeat(300) } }),
      'line_too_long',
      null,
      /more than 200 bytes.*--max-body-bytes/,
    ],
  ];
  for (const [line, code, param, message] of cases) {
    const found = await check(`${lineOf('a')}\n${line}\n`);
    assert.is(typeof found === 'number' ? 0 : found.length, 1, line);
    const [fault] = found as readonly LineFault[];
    assert.equal([fault?.code, fault?.param, fault?.line], [code, param, 2], line);
    assert.match(fault?.message ?? '', message);
  }
});

test('a file without lines, or with too many, is refused; of many faults the first hundred are listed', async () => {
  const codes = async (text: string): Promise<unknown> => {
    const found = await check(text);
    return typeof found === 'number' ? found : [found.length, found[0]?.code];
  };
  assert.equal(await codes('\n \n'), [1, 'empty_file']);
  const many = Array.from({ length: maxLines }, (_, index) => lineOf(`${index}`)).join('\n');
  assert.is(await codes(many), maxLines);
  assert.equal(await codes(`${many}\n${lineOf('more')}`), [1, 'too_many_lines']);
  assert.equal(await codes('x\n'.repeat(500)), [100, 'invalid_json_line']);
});

test.run();
