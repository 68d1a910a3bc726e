import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { argumentsReader, type KindOf } from '../../../gateway/generation/call-arguments.ts';
import { markOf } from '../../../gateway/generation/control-marks.ts';
import {
  appendCalls,
  type CallPiece,
  inOrder,
  ToolCallParser,
} from '../../../gateway/generation/tool-call-parser.ts';
import {
  glm47Format,
  glmFormat,
  hermesFormat,
  llamaFormat,
  mistralFormat,
  mistralIdFormat,
  mistralListFormat,
  qwenXmlFormat,
  type ToolCallFormat,
} from '../../../gateway/prompt/tool-call-format.ts';
import { recordedCases } from '../../fixtures/recorded-cases.ts';

/** Calls out of the text of an answer, however it comes. */

const test = suite('tool-call-parser');

interface Read {
  readonly text: string;
  readonly calls: readonly CallPiece[];
  readonly numWhole: number;
}

/** Of arguments that stand by themselves: n is JSON, o is either, all others are text. */
const kindOf: KindOf = (_, name) => {
  if (name === 'n') return 'json';
  return name === 'o' ? (value) => value === null || typeof value === 'number' : 'text';
};

/** names: of the tools, where the answer is calls or a text of a form of its own. */
function read(format: ToolCallFormat, pieces: readonly string[], names?: readonly string[]): Read {
  const parser = new ToolCallParser({ format, kindOf, ...(names === undefined ? {} : { names }) });
  const calls: CallPiece[] = [];
  let text = '';
  for (const piece of pieces) {
    const parsed = parser.push(piece);
    const indexes = parsed.calls.map(({ index }) => index);
    assert.is(new Set(indexes).size, indexes.length, 'one piece of each call');
    appendCalls(calls, parsed.calls, text.length);
    text += parsed.text;
  }
  text += parser.flush();
  return { text, calls, numWhole: parser.numWhole };
}

const call = (index: number, name: string, given: string, at = 0): CallPiece => {
  return { index, name, at, arguments: given };
};

const listFormat = mistralListFormat();
/** As offers have it for a model in which these are control tokens. */
const marked: ToolCallFormat = {
  ...mistralFormat,
  trigger: markOf('[TOOL_CALLS]'),
  begin: markOf('[TOOL_CALLS]'),
  between: markOf('[ARGS]'),
};
const FORMATS: Readonly<Record<string, ToolCallFormat>> = {
  hermes: hermesFormat,
  llama: llamaFormat,
  'qwen-xml': qwenXmlFormat,
  glm: glmFormat,
  'glm-4.7': glm47Format,
  mistral: marked,
  'mistral-marked-id': { ...marked, idMark: markOf('[CALL_ID]') },
  'mistral-id': mistralIdFormat,
  'mistral-list': listFormat,
};

/** What is read of a line `FORMAT [NAMES] TEXT`. Every cut of the text must give the same. */
function readingOf(line: string): string {
  const [, name = '', list, shown = ''] = /^(\S+) (?:\[(.*?)\] )?(.*)$/.exec(line) ?? [];
  const format = FORMATS[name];
  assert.ok(format, name);
  const names = list?.split(',');
  const text = shown
    .replaceAll('⏎', '\n')
    .replace(/\{(TOOL_CALLS|ARGS|CALL_ID)\}/g, (_, mark) => markOf(`[${mark}]`));
  const expected = read(format, [text], names);
  assert.equal(read(format, Array.from(text), names), expected, 'a character at a time');
  assert.equal(read(format, text.split(''), names), expected, 'a unit at a time');
  for (let cut = 1; cut < text.length; cut++)
    assert.equal(read(format, [text.slice(0, cut), text.slice(cut)], names), expected, `cut at ${cut}`);
  const { calls, numWhole } = expected;
  return [
    `text ${JSON.stringify(expected.text)}`,
    ...calls.map(({ index, name, at, arguments: given }) => `call ${index} of ${name} at ${at}: ${given}`),
    ...(numWhole === calls.length ? [] : [`${numWhole} of them whole`]),
  ].join('\n');
}

recordedCases(test, import.meta.url, readingOf);

test('the beginning of an argument is never sent twice, whatever its type', () => {
  for (const [name, text] of [
    ['o', 'x'.repeat(100)],
    ['n', '1'.repeat(100)],
    ['s', 'x'.repeat(100)],
    ['a'.repeat(100), ''],
  ] as const) {
    const { parameter, end } = qwenXmlFormat;
    assert.ok(parameter);
    const reader = argumentsReader(qwenXmlFormat, 'f', kindOf);
    const begun = `${parameter.begin}${name}${text === '' ? '' : parameter.between}${text}`;
    assert.equal(reader.read(begun).taken, begun.length, name);
    const rest = reader.read(`${text === '' ? parameter.between : ''}${parameter.end}${end}`);
    assert.ok(rest.isWhole);
  }
});

test('texts and calls come in their order', () => {
  const calls = [call(0, 'f', '{}'), call(1, 'g', '{}', 2), call(2, 'h', '{}', 2)];
  assert.equal(inOrder('abc', calls), [calls[0], 'ab', calls[1], calls[2], 'c']);
  assert.equal(inOrder('abc', []), ['abc']);
  assert.equal(inOrder('', []), []);
  // What goes on with a call stands in front of the text behind it.
  assert.equal(inOrder('abc', [{ index: 0, arguments: '}' }]), [{ index: 0, arguments: '}' }, 'abc']);
});

test('text is held back only while it may begin a call, and arguments not at all', () => {
  const parser = new ToolCallParser({ format: hermesFormat, kindOf });
  assert.equal(parser.push('So <tool'), { text: 'So ', calls: [] });
  assert.equal(parser.push('s'), { text: '<tools', calls: [] });
  assert.equal(parser.push('<tool_call>\n{"name": "f", "arguments": {"a"'), {
    text: '',
    calls: [call(0, 'f', '{"a"')],
  });
  assert.equal(parser.push(': 1'), { text: '', calls: [{ index: 0, arguments: ': 1' }] });
  assert.is(parser.numWhole, 0);
  assert.equal(parser.push('}}'), { text: '', calls: [{ index: 0, arguments: '}' }] });
  assert.is(parser.numWhole, 1);
});

test.run();
