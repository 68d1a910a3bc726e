import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  DeviceInquiry,
  type Devices,
  notRunnable,
  usableDevice,
} from '../../../../gateway/runner/backends/devices.ts';
import { deviceReport, script, standInDevice } from '../../../fixtures/stand-in-runners.ts';
import { type Directory, patienceMs, temporaryDirectory } from '../../../fixtures/supervised.ts';
import { VirtualClock } from '../../../fixtures/virtual-clock.ts';
import { until, within } from '../../../fixtures/within.ts';

const test = suite('devices');
const never = new AbortController().signal;

function ask(directory: Directory, ...lines: string[]): Promise<Devices> {
  return new DeviceInquiry(script(directory, 'cuda-runner', lines), 3).ask(never);
}

test('the report is read, whatever the exit status', async () => {
  const directory = temporaryDirectory();
  for (const [status, report] of [
    [0, deviceReport()],
    [69, deviceReport(null)],
  ] as const) {
    const json = JSON.stringify({ ...report, added_later: 1 });
    assert.equal(
      await ask(directory, `[ "$*" = 'devices --json --gpu-device 3' ] && echo '${json}'; exit ${status}`),
      report,
    );
  }
});

test('an invalid report gives a sentence with the program and its last output', async () => {
  const directory = temporaryDirectory();
  const cases: [string, RegExp][] = [
    [
      'echo one >&2; echo "libcuda.so: not found" >&2; exit 127',
      /gave no report: it ended with status 127: libcuda\.so: not found$/,
    ],
    ['echo "{}"', /gave no report: it ended with status 0\.$/],
    [`echo '${JSON.stringify({ ...deviceReport(), devices: [{ number: -1 }] })}'`, /gave no report/],
    ['head -c 400000 /dev/zero', /cuda-runner devices /],
    ['kill -SEGV $$', /SIGSEGV/],
  ];
  for (const [line, message] of cases) {
    const sentence = await ask(directory, line);
    assert.type(sentence, 'string', line);
    assert.match(sentence as string, message);
    assert.match(sentence as string, directory.path('cuda-runner'));
  }
  assert.match((await new DeviceInquiry('/nowhere/cuda-runner', 0).ask(never)) as string, 'ENOENT');
});

test('names of devices cannot forge lines of a log', async () => {
  const directory = temporaryDirectory();
  const json = JSON.stringify(deviceReport({ name: 'a\u001b[2J\nb' }));
  const report = await ask(directory, `cat <<'END'`, json, 'END');
  assert.not.type(report, 'string');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there.
  if (typeof report !== 'string') assert.not.match(report.devices[0]?.name ?? '', /[\u0000-\u001f]/);
});

test('a question that is given up leaves no process', async () => {
  const directory = temporaryDirectory();
  const file = script(directory, 'cuda-runner', [`echo $$ >'${directory.path('pid')}'`, 'exec sleep 1000']);
  const left = new AbortController();
  const asked = new DeviceInquiry(file, 0).ask(left.signal);
  await until(patienceMs, 'The process', () => directory.text('pid').endsWith('\n'));
  left.abort();
  assert.type(await within(patienceMs, 'The answer', asked), 'string');
  assert.throws(() => process.kill(Number(directory.text('pid')), 0), /ESRCH/);
});

test('after one that hangs no other is asked', async () => {
  const directory = temporaryDirectory();
  const file = script(directory, 'cuda-runner', [`echo x >>'${directory.path('asked')}'`, 'exec sleep 1000']);
  const clock = new VirtualClock();
  const inquiry = new DeviceInquiry(file, 0, clock);
  const left = new AbortController();
  const first = inquiry.ask(left.signal);
  await until(patienceMs, 'The process', () => directory.text('asked') !== '');
  clock.ringNext();
  assert.match((await first) as string, 'its driver may hang');
  assert.match((await inquiry.ask(never)) as string, 'is still running since an earlier probe');
  left.abort();
  await until(patienceMs, 'The end', async () => {
    const again = new AbortController();
    const answer = inquiry.ask(again.signal);
    again.abort();
    return !((await answer) as string).includes('earlier');
  });
});

test('a device counts when a kernel has run on it', () => {
  assert.equal(usableDevice(deviceReport(), 0), standInDevice);
  const reason = 'No kernel image is for compute capability 3.0.';
  assert.is(usableDevice(deviceReport({ usable: false, reason }), 0), reason);
  assert.is(usableDevice(deviceReport({ usable: false }), 0), 'No kernel runs on the CUDA device 0.');
  assert.is(usableDevice(deviceReport(), 3), 'CUDA device 3 does not exist; devices here: 0.');
  assert.match(usableDevice(deviceReport(null), 0) as string, 'no CUDA-capable device');
  assert.is(usableDevice('It said nothing.', 0), 'It said nothing.');
});

test('a missing or non-executable program is detected before it is started', async () => {
  const directory = temporaryDirectory();
  assert.is(notRunnable(script(directory, 'a', [])), undefined);
  assert.is(notRunnable(directory.path('absent')), 'does not exist');
  assert.is(notRunnable(directory.write('text', '')), 'may not be executed');
});

test.run();
