import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { literalsIn } from './fixtures/expressions/literals.ts';
import { slowPartOf } from './fixtures/expressions/search-time.ts';

/** No regular expression of the gateway takes more than linear time, whatever text it gets. */

const test = suite('expressions');
const ROOT = fileURLToPath(new URL('..', import.meta.url));

interface Expression {
  readonly source: string;
  readonly flags: string;
  readonly place: string;
}

const sources = execFileSync(
  'git',
  ['ls-files', '-co', '--exclude-standard', 'gateway/*.ts', 'gateway/*.js'],
  {
    cwd: ROOT,
    encoding: 'utf8',
  },
)
  .trim()
  .split('\n')
  .map((path) => ({ path, ...literalsIn(readFileSync(ROOT + path, 'utf8')) }));

/** Runs the code of each file that makes expressions of texts. What makes them as it is loaded comes before what loads it. */
const makers: Readonly<Record<string, () => Promise<unknown>>> = {
  'gateway/prompt/jinja/lexer.ts': () => import('../gateway/prompt/jinja/lexer.ts'),
  'gateway/prompt/tool-call-format.ts': () => import('../gateway/prompt/tool-call-format.ts'),
  'gateway/prompt/chat-renderer.ts': async () => {
    const { ControlTokenEscaper } = await import('../gateway/prompt/chat-renderer.ts');
    const { LiteralFinder } = await import('../gateway/tokenizer/added-tokens.ts');
    new ControlTokenEscaper(['<s>'], await LiteralFinder.of([['<s>', 0]]), []);
  },
  'gateway/tokenizer/charsmap.ts': () => import('../gateway/tokenizer/charsmap.ts'),
  'gateway/tokenizer/text-changes.ts': () => import('../gateway/tokenizer/text-changes.ts'),
  'gateway/tokenizer/pre-tokenizers/bert.ts': () => import('../gateway/tokenizer/pre-tokenizers/bert.ts'),
  'gateway/tokenizer/pre-tokenizers/word-splitter.ts': async () => {
    const { WordSplitter } = await import('../gateway/tokenizer/pre-tokenizers/word-splitter.ts');
    const { expressions } = await import('../gateway/tokenizer/pre-tokenizers/expressions.ts');
    for (const name of Object.keys(expressions)) new WordSplitter([name as keyof typeof expressions]);
    new WordSplitter([]);
  },
};

/** The expressions that are made while `run` runs. */
async function madeBy(run: () => Promise<unknown>): Promise<RegExp[]> {
  const made: RegExp[] = [];
  const original = RegExp;
  globalThis.RegExp = new Proxy(original, {
    construct: (_, [source, flags]: [string | RegExp, string?]) => {
      const expression = new original(source, flags);
      made.push(expression);
      return expression;
    },
  });
  try {
    await run();
  } finally {
    globalThis.RegExp = original;
  }
  return made;
}

/**
 * The words of pre-tokenizers: an expression, or what stands before its next match. A match is searched for from each place,
 * and one is found at the first place that an alternative fits, so only single alternatives are checked. Where one reads a run
 * of white space and then fails, another one takes the run.
 */
const covering = /^(.+)\|\(\?:\(\?!.+\)\[\^\]\)\+$/su;

function slow(expressions: readonly Expression[]): string[] {
  return expressions.flatMap((expression) => {
    const found = slowPartOf(expression);
    return found === undefined
      ? []
      : [`${expression.place}: /${expression.source}/${expression.flags}: ${found}`];
  });
}

test('expressions of more than linear time are detected', () => {
  const cases: readonly (readonly [RegExp, boolean])[] = [
    [/^(a*)*b/, true],
    [/^(a|a)*b/, true],
    [/^(a|ab|b)*c/, true],
    [/^(?:a?b?)*$/, true],
    [/^a*a*b/, true],
    [/^a*[ab]*c/, true],
    [/^(?:(?!a*b)[\s\S])+$/, true],
    [/^\p{L}+\p{Lu}*1/u, true],
    [/^a{0,99}a*b/, true],
    [/a*b/, true],
    [/\s+$/, true],
    [/x\s*\n\s*y/, true],
    [/<(.*?)>/, true],
    [/^a|b*c/, true],
    [/a*b/y, false],
    [/^a*b/, false],
    [/^(?:a|b)*c/, false],
    [/^\s+/, false],
    [/\s+/g, false],
    [/x\s*y/, false],
    [/x[^\S\n]*\n\s*y/, false],
    [/<([^<>]*)>/, false],
    [/^\p{Lu}+\p{Ll}*1/u, false],
    [/^(?:ab){2,3}c?$/i, false],
    [/(?<!\s)x\b/, false],
  ];
  for (const [expression, isSlow] of cases)
    assert.is(slowPartOf(expression) !== undefined, isSlow, String(expression));
});

test('expressions that cannot be analysed are refused', () => {
  for (const expression of [/^(a+)\1$/, /(?<=a+)b/])
    assert.throws(() => slowPartOf(expression), /not analysed/);
});

test('expressions in sources are found, and what only looks like one is not', () => {
  const text = [
    'const a = /x\\/[/]y/gu; // and /no/',
    "const b = c / 2 / d + '/no/'.length; /* /no/ */",
    `const f = \`/no/\${g.replace(/in/, \`\${h}/no/\`)}/no/\`;`,
    'if (/if/.test(i)) return /back/;',
    'new RegExp(a);',
  ].join('\n');
  const { literals, numMade } = literalsIn(text);
  assert.equal(
    literals.map(({ source, flags, line }) => [source, flags, line]),
    [
      ['x\\/[/]y', 'gu', 1],
      ['in', '', 3],
      ['if', '', 4],
      ['back', '', 4],
    ],
  );
  assert.is(numMade, 1);
});

test('no literal expression of the gateway takes more than linear time', () => {
  const literals = sources.flatMap(({ path, literals: found }) =>
    found.map(({ line, ...literal }) => ({ ...literal, place: `${path}:${line}` })),
  );
  assert.ok(literals.length > 100);
  assert.equal(slow(literals), []);
});

test('nor does one that it makes of texts', async () => {
  const making = sources.filter(({ numMade }) => numMade > 0);
  assert.equal(
    making.map(({ path }) => path),
    Object.keys(makers).sort(),
  );
  for (const [path, make] of Object.entries(makers)) {
    const made = await madeBy(make);
    assert.ok(made.length >= (making.find((file) => file.path === path)?.numMade ?? 0), path);
    const parts = made.map(({ source, flags }) => ({
      source: covering.exec(source)?.[1] ?? source,
      flags,
      place: path,
    }));
    assert.equal(slow(parts), []);
  }
});

test.run();
