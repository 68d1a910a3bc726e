/** The application over a backend whose device is lost while it has streams, and comes back. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { AutoBackend } from '../../../gateway/runner/backends/auto-backend.ts';
import { DeviceInquiry } from '../../../gateway/runner/backends/devices.ts';
import type { RunnerEvent } from '../../../gateway/runner/supervision/runner-event.ts';
import { type Clock, systemClock } from '../../../gateway/system/clock.ts';
import { answerOf } from '../../fixtures/fake-tokens.ts';
import { readNativeAnswer } from '../../fixtures/native-stream.ts';
import { type ServedModels, servedModels } from '../../fixtures/served-models.ts';
import { ABSENT, type StandIns, standInRunners } from '../../fixtures/stand-in-runners.ts';
import { patienceMs } from '../../fixtures/supervised.ts';
import { until, within } from '../../fixtures/within.ts';

const test = suite('backends');

/** A clock whose timers take a hundredth of their time. */
const hasty: Clock = {
  now: systemClock.now,
  after: (delayMs, ring) => systemClock.after(delayMs / 100, ring),
};

interface Served extends ServedModels {
  readonly standIns: StandIns;
  readonly events: RunnerEvent[];
}

async function served(test: (it: Served) => Promise<void>, drainMs = patienceMs): Promise<void> {
  const events: RunnerEvent[] = [];
  let standIns: StandIns | undefined;
  const launch = (
    directory: Parameters<typeof standInRunners>[0],
    serving: () => ServedModels['serving'],
  ) => {
    standIns = standInRunners(directory, directory.path('a.gguf.identity'));
    const { cpuRunner, cudaRunner } = standIns;
    return new AutoBackend({
      command: () => ({ file: cudaRunner, args: ['serve'] }),
      cpuCommand: () => ({ file: cpuRunner, args: ['serve'] }),
      gpuDevice: 0,
      inquiry: new DeviceInquiry(cudaRunner, 0),
      log: (event) => events.push(event),
      clock: hasty,
      moveBack: (cuda) => serving().switchBackend(cuda),
    }).cuda;
  };
  const options = { launch, serving: { drainMs, log: (event: RunnerEvent) => void events.push(event) } };
  await servedModels(options, (models) => test({ ...models, standIns: standIns as StandIns, events }));
}

/** Checks that an answer is complete. Returns the numerics id with which it ended, if that is not the one it began with. */
async function answer(it: Served, first: number, maxTokens: number): Promise<unknown> {
  const body = { job_id: `job ${Math.random()}`, seed: 42, token_ids: true, prompt_ids: [first] };
  const { ids, last } = await within(
    patienceMs,
    'An answer',
    it.post('/execute', { ...body, max_tokens: maxTokens }).then((response) => readNativeAnswer(response)),
  );
  assert.is(last.event, 'end', JSON.stringify(last));
  assert.equal(ids, answerOf([first], 42n, maxTokens));
  return last.data.continued_by;
}

async function backend(it: Served): Promise<Record<string, unknown>> {
  return (await it.health()).backend as Record<string, unknown>;
}

async function serves(it: Served, kind: 'cpu' | 'cuda'): Promise<void> {
  await until(patienceMs, kind, async () => {
    return it.serving.status().state === 'ready' && (await backend(it)).serving === kind;
  });
}

async function gauge(it: Served): Promise<string | undefined> {
  const text = await (await it.get('/metrics')).text();
  return /^runnel_backend_fallback\{model="a"\} (\d)$/m.exec(text)?.[1];
}

test('a device is lost: streams go on by the CPU and say so; it comes back: what is open is finished first', async () => {
  await served(async (it) => {
    assert.equal(await backend(it), {
      requested: 'auto',
      serving: 'cuda',
      is_fallback: false,
      reason: null,
      looks_again_in_seconds: null,
    });
    assert.is(await gauge(it), '0');
    assert.equal(await (await it.get('/ready')).json(), { status: 'ready' });

    const streams = [0, 1, 2, 3, 4, 5, 6, 7].map((first) => answer(it, first, 300));
    await until(patienceMs, 'All streams', () => it.serving.status().openRequests === 8);
    // This stream came last, so once it has all of its tokens, all others have some.
    await answer(it, 8, 5);
    it.standIns.setDevice(false);
    it.standIns.loseDevice();
    assert.equal(await Promise.all(streams), Array(8).fill('fake-1'));
    const { requested, serving, is_fallback, reason } = await backend(it);
    assert.equal([requested, serving, is_fallback], ['auto', 'cpu', true]);
    assert.match(String(reason), /status 79|no CUDA-capable device/);
    assert.is(await gauge(it), '1');
    const ready = (await (await it.get('/ready')).json()) as Record<string, unknown>;
    assert.is(ready.fallback, (await backend(it)).reason);
    const announced = it.events.filter(({ event }) => event === 'backend_fallback');
    assert.equal(
      announced.map(({ level, msg }) => [level, msg]),
      [['warn', 'CUDA backend requested but not available, falling back to CPU']],
    );
    await until(patienceMs, 'A look', async () => (await backend(it)).reason === ABSENT);
    assert.is(it.standIns.numCudaStarts(), 1, 'the CPU is not disturbed while nothing answers');

    const open = answer(it, 9, 1000);
    it.standIns.setDevice(true);
    await until(patienceMs, 'The return', () => it.gate.isClosed);
    const waiting = answer(it, 10, 20);
    assert.equal(
      await Promise.all([open, waiting]),
      [undefined, undefined],
      'neither changed its arithmetic',
    );
    await serves(it, 'cuda');
    assert.is(await gauge(it), '0');
    const changes = it.events.map((each) => each.event).filter((name) => name.startsWith('backend_change'));
    assert.equal(changes, ['backend_change_draining', 'backend_change_loading', 'backend_change_complete']);
    assert.is(await answer(it, 11, 20), undefined);
  });
});

test('requests not finished in time continue on the device that came back', async () => {
  await served(async (it) => {
    it.standIns.setDevice(false);
    it.standIns.loseDevice();
    await answer(it, 1, 100);
    await serves(it, 'cpu');
    const open = answer(it, 2, 2000);
    await until(patienceMs, 'The stream', () => it.serving.status().openRequests === 1);
    it.standIns.setDevice(true);
    assert.is(await open, 'cuda-fast-1');
  }, 50);
});

test('a device that answers those who ask and serves nobody costs a pause, and no stream', async () => {
  await served(async (it) => {
    it.standIns.setDevice(false);
    it.standIns.loseDevice();
    await answer(it, 1, 100);
    // The device is found again, but the runner loses it at once.
    it.standIns.loseDevice();
    it.standIns.setDevice(true);
    await serves(it, 'cuda');
    it.standIns.setDevice(false);
    assert.is(await answer(it, 2, 100), 'fake-1');
    assert.is(it.events.filter(({ event }) => event === 'device_quarantined').length, 1);
    await serves(it, 'cpu');
    assert.ok(Number((await backend(it)).looks_again_in_seconds) > 1000);
  });
});

test('a change that is asked for meanwhile goes before the return', async () => {
  await served(async (it) => {
    it.standIns.setDevice(false);
    it.standIns.loseDevice();
    await answer(it, 1, 100);
    await serves(it, 'cpu');
    const open = answer(it, 2, 1000);
    await until(patienceMs, 'The stream', () => it.serving.status().openRequests === 1);
    it.standIns.setDevice(true);
    await until(patienceMs, 'The return', () => it.gate.isClosed);
    assert.is(await it.change('a'), undefined);
    assert.is(it.serving.status().info?.kind, 'fake', 'by the launch that was asked for');
    await open;
    assert.not.ok(it.gate.isClosed);
  });
});

test.run();
