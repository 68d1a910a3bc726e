/** How the reader of a model copes with a busy machine, with a kill, and with a full table of descriptors. */
import { execFileSync } from 'node:child_process';
import { truncateSync } from 'node:fs';
import { setTimeout as elapsed } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { UnavailableError } from '../../../../gateway/errors/thrown.ts';
import { renderProcessorMs } from '../../../../gateway/models/reader/messages.ts';
import type { ModelReader } from '../../../../gateway/models/reader/model-reader.ts';
import { startSpareReader } from '../../../../gateway/models/reader/reader-process.ts';
import { ChatTemplateError } from '../../../../gateway/prompt/chat-template.ts';
import { processorMsOf } from '../../../../gateway/system/kernel.ts';
import { errorOf } from '../../../fixtures/errors.ts';
import { readerOf } from '../../../fixtures/model-readers.ts';
import { temporaryFolder } from '../../../fixtures/temporary-folder.ts';
import { tinyTemplate } from '../../../fixtures/tiny-vocabulary.ts';
import { PATIENCE_MS, until, within } from '../../../fixtures/within.ts';

const test = suite('model-reader');
/** Renders a conversation of these messages. */
const render = (reader: ModelReader, ...contents: readonly string[]) =>
  reader.renderText(
    contents.map((content) => ({ role: 'user', content })),
    {},
  );
const echo = '{{ messages[0].content }}';
/** Takes less than a tenth of the processor time that it is allowed. */
const slow = `{% if messages[0].content == 'slow' %}{% for i in range(60000) %}{% endfor %}{% endif %}${echo}`;

async function unavailable(render: Promise<string>): Promise<UnavailableError> {
  const error = await errorOf(() => within(PATIENCE_MS, 'An error', render));
  assert.instance(error, UnavailableError, error.stack ?? '');
  return error as UnavailableError;
}

/** The pid of the process, once there is one. */
async function pidOf(template: ModelReader): Promise<number> {
  await until(PATIENCE_MS, 'A process', () => template.pid !== undefined);
  return template.pid as number;
}

/** A process that has rendered before, so that only renders are timed. */
async function warm(source: string): Promise<ModelReader> {
  const template = readerOf(source);
  await within(PATIENCE_MS, 'A render', render(template, 'first'));
  return template;
}

/** Resolves when the process has used this much processor time since now. */
async function hasWorked(pid: number, processorMs: number): Promise<void> {
  const beforeMs = processorMsOf(pid) ?? 0;
  await until(PATIENCE_MS, 'Work', () => (processorMsOf(pid) ?? 0) >= beforeMs + processorMs);
}

test('the limit grows with messages and characters, up to ten seconds', () => {
  assert.equal(
    [renderProcessorMs(0, 0), renderProcessorMs(2_000, 20_000), renderProcessorMs(1_000_000, 0)],
    [2_000, 3_010, 10_000],
  );
});

test('a process that was started early is that of the next reader, unless it has ended', async () => {
  const early = startSpareReader();
  const next = await warm(echo);
  const later = await warm(echo);
  assert.is(next.pid, early);
  assert.is.not(later.pid, early);
  const ended = startSpareReader() as number;
  process.kill(ended, 'SIGKILL');
  await until(PATIENCE_MS, 'The end of the process', () => processorMsOf(ended) === undefined);
  assert.is.not((await warm(echo)).pid, ended);
});

test('a conversation of 35,000 messages is rendered', async () => {
  const template = readerOf(tinyTemplate);
  const contents = new Array<string>(35_000).fill('hi');
  const text = await within(PATIENCE_MS, 'A render', render(template, ...contents));
  assert.is(text.split('<|im_end|>').length - 1, contents.length);
  template.close();
});

test('time in which the machine gives a conversation no processor is not held against it', async () => {
  const template = await warm(slow);
  const pid = await pidOf(template);
  const rendered = render(template, 'slow');
  await hasWorked(pid, 20);
  process.kill(pid, 'SIGSTOP');
  // Longer than the whole processor time that it is allowed.
  await elapsed(renderProcessorMs(0, 0) + 500);
  process.kill(pid, 'SIGCONT');
  assert.is(await within(PATIENCE_MS, 'A render', rendered), 'slow');
  assert.is(template.pid, pid);
  template.close();
});

test('a process that does not answer in time is replaced, and the error retriable', async () => {
  const template = readerOf(echo, { waitMs: 300 });
  // The start of the process and a hash have limits of their own.
  await within(PATIENCE_MS, 'A hash', template.hash(temporaryFolder().write('model', 'x')));
  const pid = await pidOf(template);
  process.kill(pid, 'SIGSTOP');
  const error = await unavailable(render(template, 'silence'));
  assert.match(error.message, 'did not answer within 300 ms');
  assert.is(error.retryAfterSec, 1);
  template.close();
  const next = await warm(echo);
  assert.is(await render(next, 'next'), 'next');
  next.close();
});

test('each part of a file that is hashed has the time for itself, so the size of the file does not matter', async () => {
  const path = temporaryFolder().write('model', '');
  // Without blocks on the disk.
  truncateSync(path, 200 * 2 ** 20);
  const set = globalThis.setTimeout;
  let numRefreshed = 0;
  const counting = (...args: Parameters<typeof set>): NodeJS.Timeout => {
    const timer = set(...args);
    const refresh = timer.refresh.bind(timer);
    timer.refresh = () => {
      numRefreshed += 1;
      return refresh();
    };
    return timer;
  };
  const template = await warm(echo);
  globalThis.setTimeout = Object.assign(counting, set) as typeof set;
  try {
    await within(PATIENCE_MS, 'A hash', template.hash(path));
  } finally {
    globalThis.setTimeout = set;
  }
  assert.is(numRefreshed, 4);
  template.close();
});

test('a process that is killed at a conversation: another one renders it', async () => {
  const template = await warm(slow);
  const pid = await pidOf(template);
  const rendered = render(template, 'slow');
  await hasWorked(pid, 20);
  process.kill(pid, 'SIGKILL');
  assert.is(await within(PATIENCE_MS, 'A render', rendered), 'slow');
  assert.is.not(template.pid, pid);
  template.close();
});

test('a rendering killed twice gets a retriable error, and others are served', async () => {
  const template = await warm(slow);
  const first = await pidOf(template);
  const rendered = render(template, 'slow');
  const error = unavailable(rendered);
  const next = render(template, 'next');
  await hasWorked(first, 20);
  process.kill(first, 'SIGKILL');
  await until(PATIENCE_MS, 'Another process', () => template.pid !== undefined && template.pid !== first);
  process.kill(template.pid as number, 'SIGKILL');
  assert.match((await error).message, 'ended with SIGKILL');
  assert.is((await error).retryAfterSec, 1);
  assert.is(await within(PATIENCE_MS, 'The next', next), 'next');
  template.close();
});

test('a process that is killed between two conversations is not missed', async () => {
  const template = await warm(echo);
  process.kill(await pidOf(template), 'SIGKILL');
  assert.is(await within(PATIENCE_MS, 'A render', render(template, 'after')), 'after');
  template.close();
});

test('excessive memory is the template’s fault and is not retried', async () => {
  const template = readerOf('{% set x = range(10 ** 12) %}', { heapMb: 32 });
  const error = await errorOf(() => within(PATIENCE_MS, 'An error', render(template, 'memory')));
  assert.instance(error, ChatTemplateError, error.stack ?? '');
});

test('a template that cannot be parsed is parsed once', async () => {
  const template = readerOf('{% if %}');
  const error = await errorOf(() => render(template, 'x'));
  assert.match(error.message, 'cannot be parsed');
  assert.is(await errorOf(() => render(template, 'x')), error, 'the process was not asked again');
  template.close();
});

test('started before it is needed, the first conversation finds the process there', async () => {
  const template = readerOf(echo);
  template.start();
  const pid = template.pid;
  assert.type(pid, 'number');
  template.start();
  assert.is(await within(PATIENCE_MS, 'A render', render(template, 'first')), 'first');
  assert.is(template.pid, pid);
  template.close();
  await until(PATIENCE_MS, 'The end of the process', () => processorMsOf(pid as number) === undefined);
});

test('closed while it starts, nothing of it is left', async () => {
  const template = readerOf(echo);
  template.start();
  const pid = await pidOf(template);
  template.close();
  await until(PATIENCE_MS, 'The end of the process', () => processorMsOf(pid) === undefined);
});

test('three hundred conversations at once are all rendered', async () => {
  const template = readerOf(echo);
  const contents = Array.from({ length: 300 }, (_, i) => `message ${i}`);
  const renders = contents.map((content) => render(template, content));
  assert.equal(await within(PATIENCE_MS, 'All', Promise.all(renders)), contents);
  template.close();
});

test('conversations beyond the limit get a retriable error', async () => {
  const template = readerOf(echo, { waitingJobs: 4 });
  const renders = Array.from({ length: 4 }, () => render(template, 'x'));
  const error = await unavailable(render(template, 'one too many'));
  assert.match(error.message, '4 texts and conversations already wait');
  assert.ok(error.retryAfterSec);
  assert.equal(await within(PATIENCE_MS, 'The others', Promise.all(renders)), ['x', 'x', 'x', 'x']);
  template.close();
});

test('without descriptors for a process the error is retriable, and a retry succeeds', () => {
  const script = `
    import { closeSync, openSync } from 'node:fs';
    import { setTimeout as elapsed } from 'node:timers/promises';
    import { readerOf } from ${JSON.stringify(new URL('../../../fixtures/model-readers.ts', import.meta.url))};
    import { isShortage } from ${JSON.stringify(new URL('../../../../gateway/errors/thrown.ts', import.meta.url))};
    const render = () => template.renderText([{ role: 'user', content: 'hello' }], {});
    const fds = [];
    const template = readerOf(${JSON.stringify(echo)}, { startPauseMs: 50 });
    try { for (;;) fds.push(openSync('/dev/null')); } catch (error) { console.log(error.code); }
    template.start();
    for (let i = 0; i < 3; i++) {
      await render().then(console.log, (error) => console.log(error.name, isShortage(error), error.retryAfterSec <= 1));
      await elapsed(60);
    }
    for (const fd of fds) closeSync(fd);
    console.log(await render());
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
    timeout: PATIENCE_MS,
  });
  const refused = 'UnavailableError true true\n';
  assert.is(output, `EMFILE\n${refused.repeat(3)}hello\n`);
});

test.run();
