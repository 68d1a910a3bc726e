import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Template } from '../../../../gateway/prompt/jinja/template.ts';
import { JinjaError } from '../../../../gateway/prompt/jinja/values.ts';

const test = suite('jinja/template');
const golden: {
  variables: Record<string, unknown>;
  cases: { source: string; output: string | null }[];
} = JSON.parse(readFileSync(new URL('../../../golden/jinja.json', import.meta.url), 'utf8'));

function outcomeOf(source: string, variables: Record<string, unknown>): string | null {
  try {
    return new Template(source).render(variables);
  } catch (error) {
    assert.instance(error, JinjaError, `${source}: ${(error as Error).stack}`);
    return null;
  }
}

function errorOf(source: string): string {
  try {
    return `no error, but ${new Template(source).render(golden.variables)}`;
  } catch (error) {
    return (error as Error).message;
  }
}

test('snippets give what Python gives, and fail where Python fails', () => {
  assert.ok(golden.cases.length >= 160);
  for (const { source, output } of golden.cases)
    assert.is(outcomeOf(source, golden.variables), output, source);
});

test('dates are those of the time that is given', () => {
  const morning = new Date(2026, 10, 2, 9, 5, 7);
  const dated = (format: string, time: Date) =>
    new Template(`{{ strftime_now('${format}') }}`).render({}, time);
  assert.is(dated('%d %b %Y', morning), '02 Nov 2026');
  assert.is(dated('%A %a %B %b %-d %e %y', morning), 'Monday Mon November Nov 2  2 26');
  assert.is(dated('%Y-%m-%d %H:%M:%S %I %p %%', morning), '2026-11-02 09:05:07 09 AM %');
  assert.is(dated('%I %p', new Date(2026, 0, 1, 0, 0)), '12 AM');
  assert.is(dated('%I %p', new Date(2026, 0, 1, 12, 0)), '12 PM');
});

test('unsupported features are reported by name and line', () => {
  assert.is(errorOf('a\nb\n{% include "x" %}'), 'there is no tag named include, in line 3');
  assert.is(errorOf('{{ n | nope }}'), 'there is no filter named nope');
  assert.is(errorOf('{{ n is nope }}'), 'there is no test named nope');
  assert.is(errorOf('{{ kwargs }}'), 'kwargs is not supported, in line 1');
  assert.is(errorOf("{{ strftime_now('%Q') }}"), 'strftime_now does not support %Q');
  assert.is(errorOf("{{ '%5.2f' % n }}"), '%5 is not supported in a format');
  assert.is(errorOf("{{ '{:>5}'.format(n) }}"), '{:>5} is not supported in a format');
  assert.is(errorOf('{{ list.append(1) }}'), 'append would change a list, which templates may not do');
  assert.is(errorOf('\n{{ missing.x }}'), "'missing' is undefined");
  assert.is(errorOf('{{ 2 ** 100000 }}'), 'an int has more than 4096 bits');
});

test('a variable may have the name of a function or a constant', () => {
  const names = { range: 'r', namespace: 'n', none: 'x', true: 'y' };
  assert.is(new Template('{{ range }}{{ namespace }}{{ none }}{{ true }}').render(names), 'rnNoneTrue');
});

test('a template is run anew each time', () => {
  const template = new Template(
    '{% set ns = namespace(n=0) %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{{ x is defined }}',
  );
  assert.is(template.render({ x: 1 }), '1True');
  assert.is(template.render({}), '1False');
});

test('a long template of one line is read in time that grows with its length', () => {
  const source = '{{ s }}x'.repeat(100_000);
  assert.is(new Template(source).render({ s: 'a' }).length, 200_000);
  assert.is(new Template(`${' '.repeat(500_000)}x{%- if true %}y{% endif %}`).render({}).length, 500_002);
});

test.run();
