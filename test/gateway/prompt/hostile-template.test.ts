/** A template is a program from a model file. Whatever it does, it costs a bounded processor time and ends in an error of its own kind. */
import { execFileSync } from 'node:child_process';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ChatTemplateError } from '../../../gateway/prompt/chat-template.ts';
import { templateLimits } from '../../../gateway/prompt/template-limits.ts';
import { TemplateProcess } from '../../../gateway/prompt/template-process.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { within } from '../../fixtures/within.ts';

const test = suite('hostile-template');
const PATIENCE_MS = 120_000;
/** On a busy machine the limit of processor time is reached first, too. */
const patient = { startWaitMs: PATIENCE_MS, renderWaitMs: PATIENCE_MS };
const variables = {
  messages: [{ role: 'user', content: 'Hello' }],
  bos_token: '',
  eos_token: '',
  add_generation_prompt: true,
};

async function faultOf(source: string): Promise<string> {
  const template = new TemplateProcess(source, patient);
  const name = source.slice(0, 60);
  const error = await within(
    PATIENCE_MS,
    `An end of ${name}`,
    errorOf(() => template.render(variables)),
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

test('source that is no template, or too long', async () => {
  for (const source of ['{% if %}', '{{ ', '{% for x in y %}', "{{ 'x", '{% endif %}', '{# ']) {
    assert.match(await faultOf(source), 'cannot be parsed');
  }
  const tooLong = 'x'.repeat(templateLimits.sourceChars + 1);
  assert.instance(await errorOf(() => new TemplateProcess(tooLong)), ChatTemplateError);
  await new TemplateProcess(' '.repeat(templateLimits.sourceChars)).render(variables).catch((error) => {
    assert.instance(error, ChatTemplateError);
  });
});

test("a template's own refusal is reported in its words", async () => {
  const message = await faultOf("{{ raise_exception('Roles must alternate!') }}");
  assert.is(message, 'The chat template refused the conversation: Roles must alternate!.');
});

test('after a conversation that went wrong, the next one is rendered', async () => {
  const template = new TemplateProcess(
    "{% if messages[0].content == 'loop' %}{% for i in range(1000000000000) %}{% endfor %}{% endif %}" +
      "{% if messages[0].content == 'refuse' %}{{ raise_exception('no') }}{% endif %}{{ messages[0].content }}",
  );
  const render = (content: string) =>
    template.render({ ...variables, messages: [{ role: 'user', content }] });
  assert.is(await render('one'), 'one');
  assert.instance(await errorOf(() => render('refuse')), ChatTemplateError);
  assert.is(await render('two'), 'two');
  const [bad, good] = await Promise.allSettled([render('loop'), render('three')]);
  assert.is(bad.status, 'rejected');
  assert.equal(good, { status: 'fulfilled', value: 'three' });
});

test('an idle process keeps nobody from ending, and is gone afterwards', () => {
  const script = `
    import { TemplateProcess } from ${JSON.stringify(new URL('../../../gateway/prompt/template-process.ts', import.meta.url))};
    await new TemplateProcess('x').render(${JSON.stringify(variables)});
    console.log(process.pid);
  `;
  const output = execFileSync(
    process.execPath,
    ['--import', import.meta.resolve('tsx'), '--input-type=module', '-e', script],
    { encoding: 'utf8', timeout: 20_000 },
  );
  assert.match(output, /^\d+\n$/);
});

test.run();
