import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { markSign } from '../../../gateway/generation/control-marks.ts';
import { HarmonyParser } from '../../../gateway/generation/harmony-parser.ts';
import { appendCalls, type CallPiece, ToolCallParser } from '../../../gateway/generation/tool-call-parser.ts';
import { harmonyFormat, harmonyMarks, harmonyThinking } from '../../../gateway/prompt/harmony-format.ts';
import { harmonyPieces } from '../../fixtures/harmony-model.ts';
import { Random } from '../../fixtures/random.ts';
import { recordedCases } from '../../fixtures/recorded-cases.ts';

/** Thoughts, text and calls out of answers in harmony, however they come. */

const test = suite('harmony-parser');

interface Read {
  thought: string;
  text: string;
  readonly calls: CallPiece[];
}

/** What the prompt has begun, and how the answer is read. */
const MODES = {
  header: {},
  thought: { isOpen: true },
  final: { isClosed: true },
  shown: { isInText: true },
};

function read(mode: keyof typeof MODES, readsCalls: boolean, pieces: readonly string[]): Read {
  const parser = new HarmonyParser({ format: harmonyThinking, isOpen: false, readsCalls, ...MODES[mode] });
  const calls = readsCalls && new ToolCallParser({ format: harmonyFormat, kindOf: () => 'json' });
  const all: Read = { thought: '', text: '', calls: [] };
  for (const part of [...pieces.map((piece) => parser.push(piece)), parser.flush()]) {
    const parsed = calls ? calls.push(part.text) : { text: part.text, calls: [] };
    appendCalls(all.calls, parsed.calls, all.text.length);
    all.thought += part.thought;
    all.text += parsed.text;
  }
  if (calls) all.text += calls.flush();
  return all;
}

/** The pieces with the texts between marks cut anew. */
function cutAnew(pieces: readonly string[], cuts: (at: number) => boolean): string[] {
  const cut: string[] = [];
  for (const [at, piece] of pieces.entries()) {
    const joins = at > 0 && !cuts(at) && ![piece, pieces[at - 1]].some((each) => each?.startsWith(markSign));
    if (joins) cut.push(cut.pop() + piece);
    else cut.push(piece);
  }
  return cut;
}

/** What is read of a line `MODE[+calls] TEXT`. Every cut of the text must give the same. */
recordedCases(test, import.meta.url, (line) => {
  const [, mode = '', calls, text = ''] = /^(\w+)(\+calls)? (.*)$/.exec(line) ?? [];
  assert.ok(mode in MODES, mode);
  const pieces = harmonyPieces(text.replaceAll('⏎', '\n'));
  const readAs = (each: readonly string[]) => read(mode as keyof typeof MODES, calls !== undefined, each);
  const expected = readAs(pieces);
  assert.equal(readAs(cutAnew(pieces, () => false)), expected, 'whole texts');
  for (let cut = 1; cut < pieces.length; cut++)
    assert.equal(readAs(cutAnew(pieces, (at) => at === cut)), expected, `cut at ${cut}`);
  assert.not.ok(JSON.stringify(expected).includes('\\ud8'), 'no marks are left');
  return [
    ...(expected.thought === '' ? [] : [`thought ${JSON.stringify(expected.thought)}`]),
    `text ${JSON.stringify(expected.text)}`,
    ...expected.calls.map(({ name, at, arguments: given }) => `call of ${name} at ${at}: ${given}`),
  ].join('\n');
});

test('random answers are the same at every cut and leave no marks', () => {
  const random = new Random();
  const words = [
    'assistant',
    'user',
    ' to=functions.f',
    ' to=',
    'analysis',
    'final',
    'commentary',
    ' json',
    '{}',
    '\n',
    'Hm',
  ];
  const parts = [...words, ...Object.values(harmonyMarks), ...Object.values(harmonyMarks)];
  for (let round = 0; round < 3000; round++) {
    const pieces = Array.from({ length: random.below(30) }, () => random.pick(parts)).flatMap(harmonyPieces);
    for (const mode of ['header', 'thought', 'final', 'shown'] as const) {
      const calls = random.below(2) === 1;
      const what = `seed ${random.seed}, round ${round}, ${mode}`;
      const expected = read(mode, calls, pieces);
      assert.equal(
        read(
          mode,
          calls,
          cutAnew(pieces, () => random.below(3) === 0),
        ),
        expected,
        what,
      );
      assert.not.ok(JSON.stringify(expected).includes('\\ud8'), what);
    }
  }
});

test('a header that does not end is text, and is not kept', () => {
  const parser = new HarmonyParser({ format: harmonyThinking, isOpen: false });
  let longest = 0;
  let numWithout = 0;
  for (let i = 0; i < 1000; i++) {
    const { text } = parser.push('ab');
    numWithout = text === '' ? numWithout + 2 : 0;
    longest = Math.max(longest, numWithout);
  }
  assert.ok(longest <= 256, String(longest));
});

test('whether an answer thinks is known once a header has ended', () => {
  const parser = new HarmonyParser({ format: harmonyThinking, isOpen: false });
  const told = harmonyPieces(
    '<|channel|>analysis<|message|>H<|end|><|start|>assistant<|channel|>final<|message|>H',
  ).map((piece) => {
    parser.push(piece);
    return parser.isThinking;
  });
  assert.equal([...new Set(told)], [undefined, true, false]);
  assert.is(told[0], undefined);
  assert.is(told.at(-1), false);
  assert.is(told.filter((each) => each === true).length, 2);
});

test.run();
