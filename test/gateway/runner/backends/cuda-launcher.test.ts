/** How runners on a device are started, and what the next one is told of the memory that a dead one held. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Choice, CudaLauncher } from '../../../../gateway/runner/backends/cuda-launcher.ts';
import type { Devices } from '../../../../gateway/runner/backends/devices.ts';
import type { RunnerEvent } from '../../../../gateway/runner/supervision/runner-event.ts';
import type { LaunchedModel } from '../../../../gateway/runner/supervision/runner-spec.ts';
import { scriptedInfo } from '../../../fixtures/scripted-runner.ts';
import { deviceReport } from '../../../fixtures/stand-in-runners.ts';

/** A model that has not been read. */
const UNREAD = { current: undefined };

const test = suite('cuda launch');
const held = { ...scriptedInfo, weightsBytes: 800, kvCacheBytes: 200 };
const onCpu = { command: () => ({ file: 'cpu-runner', args: [] }) };

interface SubjectOptions {
  readonly hasChoice?: boolean;
  readonly devices?: Devices;
  readonly numDevices?: number;
}

function subject(options: SubjectOptions = {}) {
  const events: RunnerEvent[] = [];
  let numAsked = 0;
  const ask = async (): Promise<Devices> => {
    numAsked++;
    return options.devices ?? deviceReport();
  };
  const choice: Choice = {
    status: () => ({ requested: 'auto', isFallback: false }),
    forArchitecture: () => undefined,
    absent: () => onCpu,
    fallback: () => onCpu,
    retire: () => onCpu,
    onReady: () => {},
  };
  const log = (event: RunnerEvent) => void events.push(event);
  const command = () => ({ file: 'cuda-runner', args: ['serve'] });
  const launch = new CudaLauncher(
    { command, gpuDevice: 0, numDevices: options.numDevices, inquiry: { ask }, log },
    options.hasChoice === true ? choice : undefined,
  );
  const args = () => launch.command({} as LaunchedModel, undefined).args;
  return { launch, events, args, numAsked: () => numAsked };
}

test('without a choice of backend no process is asked for the device', async () => {
  const { launch, numAsked } = subject();
  await launch.prepare(UNREAD);
  launch.onReady(held);
  await launch.prepare(UNREAD);
  assert.is(numAsked(), 0);
});

test('the next runner waits for as much memory as the last one held, unless that was never ready', async () => {
  const { launch, args, events } = subject();
  await launch.prepare(UNREAD);
  assert.equal(args(), ['serve']);
  launch.onReady(held);
  assert.equal(
    events.map(({ event }) => event),
    ['backend_ready'],
  );
  await launch.prepare(UNREAD);
  for (let attempt = 0; attempt < 2; attempt++)
    assert.equal(args(), ['serve', '--await-free-bytes', '1000'], 'also if it is not spawned at once');
  await launch.prepare(UNREAD);
  assert.equal(args(), ['serve']);
});

test('after a first start with all devices that were asked for, the next runners may use fewer', async () => {
  const { launch, args } = subject({ numDevices: 4 });
  await launch.prepare(UNREAD);
  assert.equal(args(), ['serve']);
  launch.onReady({ ...held, numRanks: 4 });
  await launch.prepare(UNREAD);
  assert.equal(args(), ['serve', '--fewer-gpus', '--await-free-bytes', '250'], 'what each of them held');
  // One is lost, so two compute, with twice as much on each.
  launch.onReady({ ...held, numRanks: 2 });
  await launch.prepare(UNREAD);
  assert.equal(args(), ['serve', '--fewer-gpus', '--await-free-bytes', '500']);
  await launch.prepare(UNREAD);
  assert.equal(args(), ['serve', '--fewer-gpus']);
});

test('with a choice the device is asked before the first start, and not while streams wait for the next', async () => {
  const { launch, numAsked } = subject({ hasChoice: true });
  assert.is(await launch.prepare(UNREAD), undefined);
  assert.is(numAsked(), 1);
  launch.onReady(held);
  assert.is(await launch.prepare(UNREAD), undefined);
  assert.is(numAsked(), 1);
  assert.is(await launch.prepare(UNREAD), undefined);
  assert.is(numAsked(), 2, 'the one before was never ready');
});

test('where the device does not answer, the other backend is used', async () => {
  const { launch } = subject({ hasChoice: true, devices: 'There is none.' });
  assert.is(await launch.prepare(UNREAD), onCpu);
});

test('it has no fallback', () => {
  const { launch } = subject();
  assert.is(launch.fallback({} as never), undefined);
  assert.equal(launch.status(), { requested: 'cuda', isFallback: false });
});

test.run();
