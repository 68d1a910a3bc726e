import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { argumentsReader, type KindOf } from '../../../gateway/generation/call-arguments.ts';
import {
  appendCalls,
  type CallPiece,
  inOrder,
  markOf,
  maxToolNameUnits,
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

const hermes = (name: string, given: string): string =>
  `<tool_call>\n{"name": "${name}", "arguments": ${given}}\n</tool_call>`;
const call = (index: number, name: string, given: string, at = 0): CallPiece => {
  return { index, name, at, arguments: given };
};

/** What is in strings must not count: brackets, quotes, marks. */
const strange = '{"a": "}\\\\\\"{</tool_call>", "b": [{}, "]"], "ü🐈": {"c": -1.5e3}}';

const parameter = (name: string, value: string): string => `<parameter=${name}>\n${value}\n</parameter>\n`;
const qwenXml = (name: string, ...parameters: readonly string[]): string =>
  `<tool_call>\n<function=${name}>\n${parameters.join('')}</function>\n</tool_call>`;
const glm = (name: string, ...pairs: readonly (readonly [string, string])[]): string =>
  `<tool_call>${name}\n${pairs
    .map(([key, value]) => `<arg_key>${key}</arg_key>\n<arg_value>${value}</arg_value>\n`)
    .join('')}</tool_call>`;
const glm47 = (name: string, ...pairs: readonly (readonly [string, string])[]): string =>
  glm(name, ...pairs).replaceAll('\n', '');

/** As offers have it for a model in which these are control tokens. */
const marked: ToolCallFormat = {
  ...mistralFormat,
  trigger: markOf('[TOOL_CALLS]'),
  begin: markOf('[TOOL_CALLS]'),
  between: markOf('[ARGS]'),
};
const mistral = (name: string, given: string): string =>
  `${markOf('[TOOL_CALLS]')}${name}${markOf('[ARGS]')}${given}`;
const markedId: ToolCallFormat = { ...marked, idMark: markOf('[CALL_ID]') };
const mistralId = (name: string, id: string, given: string): string =>
  mistral(`${name}${markOf('[CALL_ID]')}${id}`, given);

const cases: readonly [string, ToolCallFormat, string, Read, names?: readonly string[]][] = [
  ['text alone', hermesFormat, 'Hello <tool> {"name": "x"}', read0('Hello <tool> {"name": "x"}')],
  ['one call', hermesFormat, hermes('f', '{}'), read0('', call(0, 'f', '{}'))],
  [
    'text, two calls, text',
    hermesFormat,
    `Look: <tool_\n${hermes('f', strange)}\n \n${hermes('g_2-B', '{"x": 1}')}\nDone. <`,
    read0('Look: <tool_\nDone. <', call(0, 'f', strange, 13), call(1, 'g_2-B', '{"x": 1}', 13)),
  ],
  ['arguments that are no object', hermesFormat, hermes('f', '"}"'), read0('', call(0, 'f', '"}"'))],
  [
    'what begins as a call and is none',
    hermesFormat,
    `<tool_call>\n{"name": "${'n'.repeat(70)}", "arguments": {}}`,
    read0(`<tool_call>\n{"name": "${'n'.repeat(70)}", "arguments": {}}`),
  ],
  [
    'the longest name that a tool may have',
    hermesFormat,
    hermes('n'.repeat(maxToolNameUnits), '{}'),
    read0('', call(0, 'n'.repeat(maxToolNameUnits), '{}')),
  ],
  [
    'a name one unit too long',
    hermesFormat,
    hermes('n'.repeat(maxToolNameUnits + 1), '{}'),
    read0(hermes('n'.repeat(maxToolNameUnits + 1), '{}')),
  ],
  [
    'cut within arguments',
    hermesFormat,
    'A<tool_call>\n{"name": "f", "arguments": {"a": "b',
    { text: 'A', calls: [call(0, 'f', '{"a": "b', 1)], numWhole: 0 },
  ],
  ['cut within a name', hermesFormat, 'A<tool_call>\n{"name": "f', read0('A')],
  ['cut within the mark', hermesFormat, 'A<tool_call', read0('A<tool_call')],
  [
    'cut within the end',
    hermesFormat,
    hermes('f', '{"a": 1}').slice(0, -4),
    read0('', call(0, 'f', '{"a": 1}')),
  ],
  ['Llama’s', llamaFormat, `{"name": "f", "parameters": ${strange}}`, read0('', call(0, 'f', strange))],
  [
    'Llama’s, where the answer has begun',
    llamaFormat,
    ' {"name": "f", "parameters": {}}',
    read0(' {"name": "f", "parameters": {}}'),
  ],
  [
    'arguments by themselves',
    qwenXmlFormat,
    `Look.\n${qwenXml('f', parameter('s', ' a "b"\\\n</parameter> 🐈\n'), parameter('n', '[1, {"a": "<"}]'))}\n${qwenXml('g')}`,
    read0(
      'Look.\n',
      call(0, 'f', '{"s": " a \\"b\\"\\\\\\n</parameter> 🐈\\n", "n": [1, {"a": "<"}]}', 6),
      call(1, 'g', '{}', 6),
    ),
  ],
  [
    'arguments that may be JSON or text',
    qwenXmlFormat,
    qwenXml('f', parameter('o', 'null'), parameter('o', 'true'), parameter('o', '7'), parameter('s', '7')),
    read0('', call(0, 'f', '{"o": null, "o": "true", "o": 7, "s": "7"}')),
  ],
  [
    'arguments by themselves, cut within a text',
    qwenXmlFormat,
    `<tool_call>\n<function=f>\n${parameter('n', '1')}<parameter=s>\nab\n</para`,
    { text: '', calls: [call(0, 'f', '{"n": 1, "s": "ab')], numWhole: 0 },
  ],
  [
    'GLM’s',
    glmFormat,
    `Look.\n${glm('f', ['s', '</arg_value> 1'], ['n', '2'])}\n${glm('g')}\nDone.`,
    read0('Look.\nDone.', call(0, 'f', '{"s": "</arg_value> 1", "n": 2}', 6), call(1, 'g', '{}', 6)),
  ],
  [
    'GLM 4.7’s',
    glm47Format,
    `Look.${glm47('f', ['s', '</arg_key> 1'], ['n', '2'])}${glm47('g')}Done.`,
    read0('Look.Done.', call(0, 'f', '{"s": "</arg_key> 1", "n": 2}', 5), call(1, 'g', '{}', 5)),
  ],
  ['GLM 4.7’s, cut within a name', glm47Format, 'Look.<tool_call>weather</tool_', read0('Look.')],
  [
    'GLM 4.7’s, a mark without a call',
    glm47Format,
    `<tool_call>${'n'.repeat(100)}`,
    read0(`<tool_call>${'n'.repeat(100)}`),
  ],
  [
    'GLM 4.7’s, where a text has a form of its own',
    glm47Format,
    `${glm47('f')}${glm47('fe', ['s', 'x'])}`,
    read0('', call(0, 'f', '{}'), call(1, 'fe', '{"s": "x"}')),
    ['f', 'fe'],
  ],
  [
    'a text of a form of its own that begins as one of GLM 4.7’s does',
    glm47Format,
    '<tool_call>few',
    read0('<tool_call>few'),
    ['f', 'fe'],
  ],
  [
    'Mistral’s list',
    mistralListFormat(),
    `Look. [TOOL_CALLS][{"name": "f", "arguments": ${strange}}, {"name": "g", "arguments": {}}]`,
    read0('Look. ', call(0, 'f', strange, 6), call(1, 'g', '{}', 6)),
  ],
  [
    'Mistral’s list, cut behind a call',
    mistralListFormat(),
    '[TOOL_CALLS][{"name": "f", "arguments": {}}, {"na',
    read0('', call(0, 'f', '{}')),
  ],
  [
    'Mistral’s',
    marked,
    `Look: [TOOL_CALLS]x[ARGS]{} ${mistral('f', strange)}${mistral('g', '{}')}`,
    read0('Look: [TOOL_CALLS]x[ARGS]{} ', call(0, 'f', strange, 28), call(1, 'g', '{}', 28)),
  ],
  [
    'Mistral’s with ids',
    markedId,
    `Look: ${mistralId('f', 'aB3456789', strange)}${mistralId('g', '000000000', '{}')}`,
    read0('Look: ', call(0, 'f', strange, 6), call(1, 'g', '{}', 6)),
  ],
  [
    'Mistral’s with ids that are no control tokens',
    mistralIdFormat,
    '[TOOL_CALLS]f[CALL_ID]aB3456789[ARGS]{}[TOOL_CALLS]g[CALL_ID]aB',
    { text: '', calls: [call(0, 'f', '{}'), call(1, 'g', '')], numWhole: 1 },
  ],
  [
    'Mistral’s with ids, where a text has a form of its own',
    mistralIdFormat,
    '[TOOL_CALLS]fe[CALL_ID]aB3456789[ARGS]{"a": "[ARGS]"}',
    read0('', call(0, 'fe', '{"a": "[ARGS]"}')),
    ['f', 'fe'],
  ],
  [
    'Mistral’s, a mark without a call',
    marked,
    `${markOf('[TOOL_CALLS]')}${'n'.repeat(100)}`,
    read0(`[TOOL_CALLS]${'n'.repeat(100)}`),
  ],
  [
    'calls, where a text has a form of its own',
    hermesFormat,
    `${hermes('f', strange)}\n${hermes('g', '{}')}`,
    read0('', call(0, 'f', strange), call(1, 'g', '{}')),
    ['f', 'g'],
  ],
  [
    'a text of a form of its own that has a call in it',
    glmFormat,
    `{"a": "${glm('f')}"}`,
    read0(`{"a": "${glm('f')}"}`),
    ['f'],
  ],
  [
    'a text of a form of its own that begins as a call does',
    llamaFormat,
    '{"name": "fern"}',
    read0('{"name": "fern"}'),
    ['f', 'fe'],
  ],
  [
    'a text of a form of its own that has the name of a tool',
    llamaFormat,
    '{"name": "f", "age": 3}',
    read0('{"name": "f", "age": 3}'),
    ['f'],
  ],
  [
    'a call that is a whole answer, beside a form',
    llamaFormat,
    `{"name": "f", "parameters": ${strange}}`,
    read0('', call(0, 'f', strange)),
    ['f'],
  ],
  ['Llama’s, other JSON', llamaFormat, '{"names": []}', read0('{"names": []}')],
];

function read0(text: string, ...calls: CallPiece[]): Read {
  return { text, calls, numWhole: calls.length };
}

for (const [what, format, text, expected, names] of cases) {
  test(`${what}: every cut of the text gives the same`, () => {
    assert.equal(read(format, [text], names), expected);
    assert.equal(read(format, Array.from(text), names), expected, 'a character at a time');
    assert.equal(read(format, text.split(''), names), expected, 'a unit at a time');
    for (let cut = 1; cut < text.length; cut++) {
      const pieces = [text.slice(0, cut), text.slice(cut)];
      assert.equal(read(format, pieces, names), expected, `cut at ${cut}`);
    }
  });
}

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
