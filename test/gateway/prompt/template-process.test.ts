/** How the process that renders templates copes with a busy machine, with a kill, and with a full table of descriptors. */
import { execFileSync } from 'node:child_process';
import { setTimeout as elapsed } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ChatTemplateError, ChatTemplateUnavailableError } from '../../../gateway/prompt/chat-template.ts';
import { renderProcessorMs } from '../../../gateway/prompt/template-limits.ts';
import { TemplateProcess } from '../../../gateway/prompt/template-process.ts';
import { processorMsOf } from '../../../gateway/system/processor-time.ts';
import { errorOf } from '../../fixtures/errors.ts';
import { tinyTemplate } from '../../fixtures/tiny-vocabulary.ts';
import { until, within } from '../../fixtures/within.ts';

const test = suite('template-process');
const patienceMs = 60_000;
const conversation = (...contents: readonly string[]) => ({
  messages: contents.map((content) => ({ role: 'user', content })),
  bos_token: '',
  eos_token: '',
  add_generation_prompt: true,
});
const echo = '{{ messages[0].content }}';
/** Takes less than a tenth of the processor time that it is allowed. */
const slow = `{% if messages[0].content == 'slow' %}{% for i in range(60000) %}{% endfor %}{% endif %}${echo}`;

async function unavailable(render: Promise<string>): Promise<ChatTemplateUnavailableError> {
  const error = await errorOf(() => within(patienceMs, 'An error', render));
  assert.instance(error, ChatTemplateUnavailableError, error.stack ?? '');
  return error as ChatTemplateUnavailableError;
}

/** The pid of the process, once there is one. */
async function pidOf(template: TemplateProcess): Promise<number> {
  await until(patienceMs, 'A process', () => template.pid !== undefined);
  return template.pid as number;
}

/** A process that has rendered before, so that only renders are timed. */
async function warm(source: string, limits = {}): Promise<TemplateProcess> {
  const template = new TemplateProcess(source, limits);
  await within(patienceMs, 'A render', template.render(conversation('first')));
  return template;
}

/** Resolves when the process has used this much processor time since now. */
async function hasWorked(pid: number, processorMs: number): Promise<void> {
  const beforeMs = processorMsOf(pid) ?? 0;
  await until(patienceMs, 'Work', () => (processorMsOf(pid) ?? 0) >= beforeMs + processorMs);
}

test('the limit grows with messages and characters, up to ten seconds', () => {
  assert.equal(
    [renderProcessorMs(0, 0), renderProcessorMs(2_000, 20_000), renderProcessorMs(1_000_000, 0)],
    [2_000, 3_010, 10_000],
  );
});

test('a conversation of 35,000 messages is rendered', async () => {
  const template = new TemplateProcess(tinyTemplate);
  const contents = new Array<string>(35_000).fill('hi');
  const text = await within(patienceMs, 'A render', template.render(conversation(...contents)));
  assert.is(text.split('<|im_end|>').length - 1, contents.length);
  template.close();
});

test('time in which the machine gives a conversation no processor is not held against it', async () => {
  const template = await warm(slow);
  const pid = await pidOf(template);
  const render = template.render(conversation('slow'));
  await hasWorked(pid, 20);
  process.kill(pid, 'SIGSTOP');
  // Longer than the whole processor time that it is allowed.
  await elapsed(renderProcessorMs(0, 0) + 500);
  process.kill(pid, 'SIGCONT');
  assert.is(await within(patienceMs, 'A render', render), 'slow');
  assert.is(template.pid, pid);
  template.close();
});

test('a process that does not answer in time is replaced, and the error retriable', async () => {
  const template = await warm(echo, { renderWaitMs: 300 });
  const pid = await pidOf(template);
  process.kill(pid, 'SIGSTOP');
  const error = await unavailable(template.render(conversation('silence')));
  assert.match(error.message, 'did not answer within 300 ms');
  assert.is(error.retryAfterSec, 1);
  template.close();
  const next = await warm(echo);
  assert.is(await next.render(conversation('next')), 'next');
  next.close();
});

test('a process that is killed at a conversation: another one renders it', async () => {
  const template = await warm(slow);
  const pid = await pidOf(template);
  const render = template.render(conversation('slow'));
  await hasWorked(pid, 20);
  process.kill(pid, 'SIGKILL');
  assert.is(await within(patienceMs, 'A render', render), 'slow');
  assert.is.not(template.pid, pid);
  template.close();
});

test('a rendering killed twice gets a retriable error, and others are served', async () => {
  const template = await warm(slow);
  const first = await pidOf(template);
  const render = template.render(conversation('slow'));
  const error = unavailable(render);
  const next = template.render(conversation('next'));
  await hasWorked(first, 20);
  process.kill(first, 'SIGKILL');
  await until(patienceMs, 'Another process', () => template.pid !== undefined && template.pid !== first);
  process.kill(template.pid as number, 'SIGKILL');
  assert.match((await error).message, 'ended with SIGKILL');
  assert.is((await error).retryAfterSec, 1);
  assert.is(await within(patienceMs, 'The next', next), 'next');
  template.close();
});

test('a process that is killed between two conversations is not missed', async () => {
  const template = await warm(echo);
  process.kill(await pidOf(template), 'SIGKILL');
  assert.is(await within(patienceMs, 'A render', template.render(conversation('after'))), 'after');
  template.close();
});

test('excessive memory is the template’s fault and is not retried', async () => {
  const template = new TemplateProcess('{% set x = range(10 ** 12) %}', { heapMb: 32 });
  const error = await errorOf(() => within(patienceMs, 'An error', template.render(conversation('memory'))));
  assert.instance(error, ChatTemplateError, error.stack ?? '');
});

test('a template that cannot be parsed is parsed once', async () => {
  const template = new TemplateProcess('{% if %}');
  const error = await errorOf(() => template.render(conversation('x')));
  assert.match(error.message, 'cannot be parsed');
  assert.is(template.pid, undefined);
  assert.is(await errorOf(() => template.render(conversation('x'))), error);
  template.start();
  assert.is(template.pid, undefined);
  const unasked = new TemplateProcess('{% if %}');
  unasked.start();
  const pid = await pidOf(unasked);
  await until(patienceMs, 'The end of the process', () => processorMsOf(pid) === undefined);
});

test('started before it is needed, the first conversation finds the process there', async () => {
  const template = new TemplateProcess(echo);
  template.start();
  const pid = template.pid;
  assert.type(pid, 'number');
  template.start();
  assert.is(await within(patienceMs, 'A render', template.render(conversation('first'))), 'first');
  assert.is(template.pid, pid);
  template.close();
  await until(patienceMs, 'The end of the process', () => processorMsOf(pid as number) === undefined);
});

test('closed while it starts, nothing of it is left', async () => {
  const template = new TemplateProcess(echo);
  template.start();
  const pid = await pidOf(template);
  template.close();
  await until(patienceMs, 'The end of the process', () => processorMsOf(pid) === undefined);
});

test('three hundred conversations at once are all rendered', async () => {
  const template = new TemplateProcess(echo);
  const contents = Array.from({ length: 300 }, (_, i) => `message ${i}`);
  const renders = contents.map((content) => template.render(conversation(content)));
  assert.equal(await within(patienceMs, 'All', Promise.all(renders)), contents);
  template.close();
});

test('conversations beyond the limit get a retriable error', async () => {
  const template = new TemplateProcess(echo, { waitingRenders: 4 });
  const renders = Array.from({ length: 4 }, () => template.render(conversation('x')));
  const error = await unavailable(template.render(conversation('one too many')));
  assert.match(error.message, '4 conversations already wait');
  assert.ok(error.retryAfterSec >= 1);
  assert.equal(await within(patienceMs, 'The others', Promise.all(renders)), ['x', 'x', 'x', 'x']);
  template.close();
});

test('without descriptors for a process the error is retriable, and a retry succeeds', () => {
  const url = (path: string) => JSON.stringify(new URL(`../../../gateway/${path}`, import.meta.url));
  const script = `
    import { closeSync, openSync } from 'node:fs';
    import { setTimeout as elapsed } from 'node:timers/promises';
    import { TemplateProcess } from ${url('prompt/template-process.ts')};
    const variables = ${JSON.stringify(conversation('hello'))};
    const fds = [];
    const template = new TemplateProcess(${JSON.stringify(echo)}, { startPauseMs: 50 });
    try { for (;;) fds.push(openSync('/dev/null')); } catch (error) { console.log(error.code); }
    template.start();
    for (let i = 0; i < 3; i++) {
      await template.render(variables).then(console.log, (error) => console.log(error.name, error.retryAfterSec <= 1));
      await elapsed(60);
    }
    for (const fd of fds) closeSync(fd);
    console.log(await template.render(variables));
    template.close();
  `;
  const node = [
    process.execPath,
    '--import',
    import.meta.resolve('tsx'),
    '--input-type=module',
    '-e',
    script,
  ];
  const output = execFileSync('prlimit', ['--nofile=128', ...node], {
    encoding: 'utf8',
    timeout: patienceMs,
  });
  const refused = 'ChatTemplateUnavailableError true\n';
  assert.is(output, `EMFILE\n${refused.repeat(3)}hello\n`);
});

test.run();
