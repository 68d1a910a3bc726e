import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

import * as assert from 'uvu/assert';
import { crashKind, type RunnerCrash } from '../../../gateway/runner/supervision/exit-policy.ts';
import {
  CrashReports,
  crashReport,
  maxFolderBytes,
  maxReports,
  maxRequestsShown,
} from '../../../gateway/telemetry/crash-reports.ts';
import { createLog } from '../../../gateway/telemetry/log.ts';
import { testApp } from '../../fixtures/app.ts';
import { closingSuite } from '../../fixtures/closing-suite.ts';
import { ScriptedRunner, scriptedInfo } from '../../fixtures/scripted-runner.ts';
import { collectExact, ready, requestOf } from '../../fixtures/supervised.ts';
import { temporaryFolder } from '../../fixtures/temporary-folder.ts';

const test = closingSuite('crash reports');
const folder = temporaryFolder();

function reports(
  name: string,
  recording?: string,
): { folder: string; add: (crash: RunnerCrash) => void; all: CrashReports; log: string[] } {
  const log: string[] = [];
  let nowMs = Date.UTC(2026, 0, 1);
  const path = join(folder.path, name);
  const all = new CrashReports({
    folder: path,
    recording,
    log: createLog('error', undefined, { write: (line) => void log.push(line) }),
    now: () => nowMs++,
  });
  return { folder: path, add: (crash) => all.add(crash), all, log };
}

/** A crash of a fake runner in the middle of an answer. */
async function realCrash(): Promise<RunnerCrash> {
  const crashes: RunnerCrash[] = [];
  const file = join(folder.path, 'fault');
  writeFileSync(file, '');
  const crash = ['--crash-after', '5', '--crash-file', file, '--crash-signal', 'SIGSEGV'];
  const onCrash = (crash: RunnerCrash) => crashes.push(crash);
  const { supervisor } = await ready([...crash, '--stderr-bytes', '70'], { onCrash });
  await collectExact(supervisor, requestOf([11, 22, 33], 20));
  await supervisor.stop(0);
  assert.is(crashes.length, 1, 'the end that was asked for is no crash');
  return crashes[0] as RunnerCrash;
}

test('an answer that differs from its audit has a report of the runner that computed it and lives', () => {
  const { folder: path, all } = reports('audit');
  const runner = new ScriptedRunner().status();
  all.addDifference('A token differs.', runner);
  const [report] = all.newest;
  assert.equal(
    [report?.reason, report?.message, report?.pid, report?.numerics_id, report?.exit_code, report?.step],
    ['audit', 'A token differs.', runner.pid, scriptedInfo.numericsId, null, null],
  );
  assert.ok(crashReport.safeParse(report).success);
  const [file] = readdirSync(path);
  assert.equal(JSON.parse(readFileSync(join(path, file as string), 'utf8')), report);
});

test('a report has the cause and the open requests, but no prompts', async () => {
  const crash = await realCrash();
  const { folder: path, add, all } = reports('one');
  add(crash);
  const [report] = all.newest;
  if (report === undefined) throw new Error('there is no report');
  assert.equal(
    [report.reason, report.signal, report.exit_code, report.start, report.numerics_id, report.build],
    ['SIGSEGV', 'SIGSEGV', null, 1, 'fake-1', '0.0.1'],
  );
  assert.is(report.step, 5);
  assert.match(report.message, 'SIGSEGV');
  assert.match(report.stderr_tail[0] ?? '', 'over and over');
  assert.is(report.num_requests, 1);
  const [request] = report.requests as [Record<string, unknown>];
  assert.equal(
    [request.request_id, request.prompt_tokens, request.max_tokens, request.seed, request.strikes],
    [1, 3, 20, 42n, 0],
  );
  const names = readdirSync(path);
  assert.is(names.length, 1);
  const written = readFileSync(join(path, names[0] ?? ''), 'utf8');
  assert.equal(JSON.parse(written).requests[0].prompt_tokens, 3);
  assert.not.match(written, /11, ?22/);
  assert.is(statSync(join(path, names[0] ?? '')).mode & 0o777, 0o600);
  const { get } = testApp({ crashes: () => all.newest });
  const answer = (await (await get('/runner/crashes')).json()) as { crashes: object[] };
  assert.equal(answer, { crashes: [JSON.parse(written)] });
});

test('a recording is kept beside its report, and the next runner can begin another', async () => {
  const recording = join(folder.path, 'session.frames');
  const { folder: path, add, all } = reports('recorded', recording);
  const crash = await realCrash();
  for (const content of ['first', 'second']) {
    writeFileSync(recording, content);
    add(crash);
    assert.not(existsSync(recording));
    assert.is(readFileSync(all.newest[0]?.recording ?? '', 'utf8'), content);
  }
  add(crash);
  assert.is(all.newest[0]?.recording, null, 'it died before it recorded');
  assert.is(readdirSync(path).length, 5);
});

test('only the newest are kept, others’ files are not touched, and long lists are cut', async () => {
  const { folder: path, add, all } = reports('many');
  const crash = await realCrash();
  const [request] = crash.requests;
  if (request === undefined) throw new Error('there was no request');
  add({ ...crash, requests: new Array(1000).fill(request) });
  assert.equal([all.newest[0]?.num_requests, all.newest[0]?.requests.length], [1000, maxRequestsShown]);
  writeFileSync(join(path, 'notes.json'), 'mine');
  for (let i = 0; i < maxReports + 5; i++) add({ ...crash, start: i });
  assert.is(all.newest.length, maxReports);
  assert.is(all.newest[0]?.start, maxReports + 4, 'the newest comes first');
  const names = readdirSync(path).filter((name) => name.startsWith('crash-'));
  assert.is(names.length, maxReports);
  assert.is(JSON.parse(readFileSync(join(path, names.sort().at(-1) ?? ''), 'utf8')).start, maxReports + 4);
  assert.is(readFileSync(join(path, 'notes.json'), 'utf8'), 'mine');
});

test('a folder that cannot be written to is logged, and nothing else is lost', async () => {
  writeFileSync(join(folder.path, 'file'), '');
  const { add, all, log } = reports('file');
  add(await realCrash());
  assert.is(all.newest.length, 1);
  assert.match(log.join(''), 'crash_report_failed');
});

test('a folder has a gibibyte at most: the oldest go with their recordings, and the newest stays whatever it takes', async () => {
  const crash = await realCrash();
  const recording = join(folder.path, 'large.frames');
  const { folder: path, add } = reports('large', recording);
  /** Adds a report with a recording of this apparent length. The file is sparse and takes no space. */
  const addWith = (bytes: number): string[] => {
    writeFileSync(recording, '');
    truncateSync(recording, bytes);
    add(crash);
    return readdirSync(path).sort();
  };
  const [first] = addWith(Math.floor(maxFolderBytes * 0.4));
  assert.is(addWith(Math.floor(maxFolderBytes * 0.4)).length, 4);
  const third = addWith(Math.floor(maxFolderBytes * 0.4));
  assert.is(third.length, 4, 'three do not fit');
  assert.not(third.includes(first ?? ''), 'the oldest has gone');
  assert.is(addWith(maxFolderBytes * 2).length, 2);
});

test('a recording that cannot be moved to its report stays where it is, and the log says what would help', async () => {
  const crash = await realCrash();
  // A folder is in the way: nothing can be renamed to a name that a folder has.
  const recording = join(folder.path, 'unmovable.frames');
  const { folder: path, add, all, log } = reports('unmoved', recording);
  writeFileSync(recording, 'frames');
  mkdirSync(path);
  mkdirSync(join(path, `crash-2026-01-01T00-00-00.000Z-${crash.pid}.frames`));
  add(crash);
  assert.is(readFileSync(recording, 'utf8'), 'frames');
  assert.is(all.newest[0]?.recording, null);
  const [line] = log.map((text) => JSON.parse(text));
  assert.equal([line.event, line.level, line.recording], ['recording_not_kept', 'error', recording]);
  assert.match(line.msg, /EISDIR|ENOTEMPTY|EEXIST/);
});

test('a recording on another file system is not kept, and the log says so', async () => {
  const shared = '/dev/shm';
  if (!existsSync(shared) || statSync(shared).dev === statSync(folder.path).dev) {
    console.log(`SKIPPED: ${shared} is no other file system than ${folder.path}`);
    return;
  }
  const recording = join(mkdtempSync(join(shared, 'runnel-test-')), 'session.frames');
  try {
    writeFileSync(recording, 'frames');
    const { add, all, log } = reports('elsewhere', recording);
    add(await realCrash());
    assert.is(all.newest[0]?.recording, null);
    assert.match(log.join(''), /recording_not_kept.*on the same file system/);
  } finally {
    rmSync(dirname(recording), { recursive: true });
  }
});

test('each way to die has its word', async () => {
  const crash = await realCrash();
  const { death } = crash;
  const kindOf = (change: Partial<typeof death>) => crashKind({ ...crash, death: { ...death, ...change } });
  const exit = { code: undefined, signal: undefined, spawnError: undefined };
  assert.is(kindOf({}), 'SIGSEGV');
  assert.is(kindOf({ exit: { ...exit, code: 70 } }), 'status_70');
  assert.is(kindOf({ exit: { ...exit, spawnError: 'ENOENT' } }), 'spawn');
  assert.is(kindOf({ exit: { ...exit, signal: 'SIGKILL' } }), 'SIGKILL');
  assert.is(kindOf({ exit: { ...exit, signal: 'SIGKILL' }, isOutOfMemory: true }), 'memory');
  assert.is(kindOf({ verdict: { kind: 'hung', sentence: 'It hung.' } }), 'hung');
});

test.run();
