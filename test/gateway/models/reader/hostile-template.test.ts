/** A template is a program from a model file. Whatever it does, it costs a bounded processor time and ends in an error of its own kind. */
import { execFileSync } from 'node:child_process';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { templateSourceCharsMax } from '../../../../gateway/models/reader/messages.ts';
import { ChatTemplateError } from '../../../../gateway/prompt/chat-template.ts';
import { errorOf } from '../../../fixtures/errors.ts';
import { readerOf } from '../../../fixtures/model-readers.ts';
import { within } from '../../../fixtures/within.ts';

const test = suite('hostile-template');
const PATIENCE_MS = 120_000;
/** On a busy machine the limit of processor time is reached first, too. */
const patient = { waitMs: PATIENCE_MS };
const user = (content: string) => ({ role: 'user', content }) as const;

async function faultOf(source: string): Promise<string> {
  const template = readerOf(source, patient);
  const name = source.slice(0, 60);
  const error = await within(
    PATIENCE_MS,
    `An end of ${name}`,
    errorOf(() => template.renderText([user('Hello')], {})),
  );
  template.close();
  assert.instance(error, ChatTemplateError, `${name}: ${error.stack}`);
  return error.message;
}

const nest = (open: string, close: string, depth: number) => open.repeat(depth) + close.repeat(depth);
const doubling =
  "{% set ns = namespace(s='x') %}{% for i in range(N) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}";

test('nesting that is too deep', async () => {
  assert.match(await faultOf(nest('{%if 1%}', '{%endif%}', 50_000)), 'too deep');
  assert.match(await faultOf(`{{ ${nest('(', ')', 50_000)} }}`), 'too deep');
  assert.match(await faultOf(`{{ ${nest('[', ']', 50_000)} }}`), 'too deep');
  assert.match(await faultOf(`{{ ${'not '.repeat(50_000)} true }}`), 'too deep');
});

test('recursion without end', async () => {
  await faultOf('{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}');
  await faultOf('{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}');
});

test('loops without end', async () => {
  await faultOf('{% for i in range(1000000000000) %}x{% endfor %}');
  await faultOf('{% for i in range(0, 1, 0) %}x{% endfor %}');
  const loops = Array.from({ length: 8 }, (_, i) => `{% for v${i} in range(1000) %}`);
  assert.match(
    await faultOf(`${loops.join('')}x${'{% endfor %}'.repeat(8)}`),
    'more than 2001 ms of processor time',
  );
});

test('values without bounds', async () => {
  assert.match(
    await faultOf(`${doubling.replace('N', '24')}{{ ns.s }}`),
    'its output has 16777216 characters',
  );
  await faultOf(`${doubling.replace('N', '28')}{{ ns.s | upper }}{{ ns.s | lower }}`);
  await faultOf(`${doubling.replace('N', '64')}{{ ns.s }}`);
  await faultOf("{{ 'x' * 1000000000 }}");
  await faultOf('{{ messages | tojson(indent=500000000) }}');
  await faultOf(
    `${doubling.replace('N', '20')}{{ ns.s.replace('', ns.s) | length }}{{ ns.s.replace('x', ns.s) }}`,
  );
  await faultOf(
    "{% set ns = namespace(a=['x']) %}{% for i in range(40) %}{% set ns.a = [ns.a, ns.a] %}{% endfor %}{{ ns.a }}",
  );
  await faultOf(
    "{% set ns = namespace(a=['x']) %}{% for i in range(40) %}{% set ns.a = ns.a + ns.a %}{% endfor %}{{ ns.a | length }}",
  );
});

test('a template cannot reach the process', async () => {
  for (const source of [
    "{{ messages.constructor.constructor('return process')().exit(3) }}",
    "{{ ''.__class__.__mro__ }}{{ raise_exception('no') }}",
    "{{ range.constructor('return process')() }}",
    '{{ namespace.__proto__.x() }}',
  ]) {
    await faultOf(source);
  }
});

test('source that is no template, or the longest one', async () => {
  for (const source of ['{% if %}', '{{ ', '{% for x in y %}', "{{ 'x", '{% endif %}', '{# ']) {
    assert.match(await faultOf(source), 'cannot be parsed');
  }
  const longest = readerOf(' '.repeat(templateSourceCharsMax));
  assert.is((await longest.renderText([user('Hello')], {})).length, templateSourceCharsMax);
  longest.close();
});

test("a template's own refusal is reported in its words", async () => {
  const message = await faultOf("{{ raise_exception('Roles must alternate!') }}");
  assert.is(message, 'The chat template refused the conversation: Roles must alternate!.');
});

test('after a conversation that went wrong, the next one is rendered', async () => {
  const template = readerOf(
    "{% if messages[0].content == 'loop' %}{% for i in range(1000000000000) %}{% endfor %}{% endif %}" +
      "{% if messages[0].content == 'refuse' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}",
  );
  const render = (content: string) => template.renderText([user(content)], {});
  assert.is(await render('one'), 'one');
  assert.instance(await errorOf(() => render('refuse')), ChatTemplateError);
  assert.is(await render('two'), 'two');
  const [bad, good] = await Promise.allSettled([render('loop'), render('three')]);
  assert.is(bad.status, 'rejected');
  assert.equal(good, { status: 'fulfilled', value: 'three' });
});

test('an idle process keeps nobody from ending, and is gone afterwards', () => {
  const script = `
    import { readerOf } from ${JSON.stringify(new URL('../../../fixtures/model-readers.ts', import.meta.url))};
    await readerOf('x').renderText([], {});
    console.log(process.pid);
  `;
  const output = execFileSync(
    process.execPath,
    ['--import', import.meta.resolve('tsx'), '--input-type=module', '-e', script],
    { encoding: 'utf8', timeout: PATIENCE_MS },
  );
  assert.match(output, /^\d+\n$/);
});

test.run();
