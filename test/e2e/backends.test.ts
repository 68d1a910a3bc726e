/**
 * The gateway's own process with each backend: with and without cuda-runner built, and with its device present, absent
 * or lost. The runners are real; cuda-runner runs on an emulated GPU.
 */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  type EmulatedRunners,
  emulatedRunners,
  mostLikelyIds,
  writeLlama,
} from '../fixtures/emulated-runners.ts';
import { areReady, Gateway, runnersOf } from '../fixtures/gateway.ts';
import { inParallel } from '../fixtures/in-parallel.ts';
import { type NativeAnswer, readNativeAnswer } from '../fixtures/native-stream.ts';
import { patienceMs, temporaryDirectory } from '../fixtures/supervised.ts';
import { until, within } from '../fixtures/within.ts';

const test = suite('backends');

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FALLING_BACK = 'CUDA backend requested but not available, falling back to CPU';
const INITIALIZED = 'Initialized CUDA device for inference';
const ABSENT = 'No CUDA device was found. Check that nvidia-smi shows the GPU.';

/**
 * The launch at which the device is lost. All streams are open long before the first has used this many launches, and a
 * long stream needs more.
 */
const MANY_LAUNCHES = 5000;
const LONG = 700;

interface World {
  readonly runners: EmulatedRunners;
  readonly model: string;
  /** Flags of a gateway, without the model. */
  readonly flags: readonly string[];
}

async function world(isBuilt: boolean, test: (it: World) => Promise<void>): Promise<void> {
  const directory = temporaryDirectory();
  const runners = emulatedRunners(directory);
  const cudaRunner = isBuilt ? runners.cudaRunner : directory.path('not-built');
  await test({
    runners,
    model: writeLlama(directory, 'a'),
    flags: ['--runner', runners.cpuRunner, '--cuda-runner', cudaRunner],
  });
}

async function served(
  it: World,
  args: readonly string[],
  test: (gateway: Gateway) => Promise<void>,
): Promise<void> {
  const gateway = await Gateway.start(it.model, [...it.flags, ...args]);
  try {
    await test(gateway);
  } finally {
    assert.is((await gateway.stop()).code, 0, gateway.log);
  }
}

interface Backend {
  readonly serving: string | null;
  readonly is_fallback: boolean;
  readonly reason: string | null;
}

async function backendOf(gateway: Gateway): Promise<Backend> {
  return ((await gateway.health()) as unknown as { backend: Backend }).backend;
}

/** A whole answer, and what it says of its arithmetic. */
async function answer(gateway: Gateway, model: string, first: number, maxTokens: number): Promise<unknown> {
  const body = {
    job_id: `job ${first}`,
    prompt_ids: [first],
    max_tokens: maxTokens,
    temperature: 0,
    token_ids: true,
  };
  const { ids, last }: NativeAnswer = await readNativeAnswer(await gateway.post('/execute', body));
  assert.equal(ids, mostLikelyIds(model, first, maxTokens));
  return last.data.continued_by;
}

/** Checks which of the two texts appear in the log. */
async function assertTexts(gateway: Gateway, are: readonly [boolean, boolean]): Promise<void> {
  for (const [index, text] of [FALLING_BACK, INITIALIZED].entries()) {
    if (are[index]) await until(patienceMs, `The text ${text}`, () => gateway.log.includes(text));
    else assert.not.match(gateway.log, text);
  }
}

const auto = ['--backend', 'auto'];
const cuda = ['--backend', 'cuda'];
const REASONS: Readonly<Record<string, RegExp>> = {
  'not built': /cuda-runner is not built: .*not-built does not exist; "make cuda-runner" builds it/,
  absent: /No CUDA device was found/,
};
/** flags; built, with a device; what serves, falling back; why; what the log says. */
const CASES = `
  ; ; cpu; not built;
  --backend auto; device; cpu fallback; not built; falling back
  ; built device; cuda; ; initialized
  --backend auto; built; cpu fallback; absent; falling back
  --backend cpu; ; cpu; ;
  --backend cpu; built device; cpu; ;
  --gpu-device=-1; built device; cpu; ;
  --backend cuda; built device; cuda; ; initialized`;

test('each backend, built or not, with a device or without: what serves, what is said, and that nothing crashed', async () => {
  await inParallel(CASES.trim().split('\n'), async (line) => {
    const [flags = '', there = '', serves = '', why = '', says = ''] = line
      .split(';')
      .map((word) => word.trim());
    const [serving, isFallback] = [serves.split(' ')[0], serves.endsWith('fallback')];
    await world(there.includes('built'), async (it) => {
      it.runners.setDevice(there.includes('device'));
      await served(it, flags.split(' ').filter(Boolean), async (gateway) => {
        const what = `${line}: ${gateway.log}`;
        const reason = REASONS[why];
        await gateway.ready();
        const found = await backendOf(gateway);
        assert.equal([found.serving, found.is_fallback], [serving, isFallback], what);
        if (reason === undefined) assert.is(found.reason, null, what);
        else assert.match(found.reason ?? '', reason, what);
        await assertTexts(gateway, [says === 'falling back', says === 'initialized']);
        assert.is(await answer(gateway, it.model, 1, 20), undefined, what);
        assert.is(it.runners.numCudaStarts(), serving === 'cuda' ? 1 : 0, what);
        assert.is((await gateway.health()).runner.restarts, 0, what);
      });
    });
  });
});

test('--backend auto, built, the device dies: streams go on by the CPU with the same tokens, and are not marked', async () => {
  await world(true, async (it) => {
    it.runners.loseDevice(MANY_LAUNCHES);
    await served(it, auto, async (gateway) => {
      await gateway.ready();
      const complete = async (stream: boolean) => {
        const body = { model: 'a', prompt: [[4], [5]], max_tokens: LONG, temperature: 0.8, seed: 7, stream };
        return (await gateway.post('/v1/completions', body)).text();
      };
      const marks = [1, 2, 3].map((first) => answer(gateway, it.model, first, LONG));
      const completions = [false, true].map(complete);
      await gateway.healthWhere(({ runner }) => runner.open_requests === 7, 'All streams');
      it.runners.setDevice(false);
      const [whole, chunks] = (await Promise.all(completions)) as [string, string];
      assert.equal(await Promise.all(marks), [undefined, undefined, undefined]);
      assert.not.match(whole + chunks, 'continued_by');
      await assertTexts(gateway, [true, true]);
      assert.not.match(gateway.log, 'numerics_changed');
      assert.equal(await backendOf(gateway).then(({ serving, is_fallback }) => [serving, is_fallback]), [
        'cpu',
        true,
      ]);
      assert.equal(textsOf(await complete(false)), textsOf(whole), 'the CPU alone');
    });
  });
});

/** The text of each choice of a whole completion. */
function textsOf(completion: string): string[] {
  const { choices } = JSON.parse(completion) as { choices: { text: string }[] };
  return choices.map(({ text }) => text);
}

test('--backend cuda, built, the device dies and is there again: cuda-runner is started anew, streams are exact', async () => {
  await world(true, async (it) => {
    it.runners.loseDevice(MANY_LAUNCHES);
    await served(it, cuda, async (gateway) => {
      await gateway.ready();
      const marks = await Promise.all([1, 2, 3].map((first) => answer(gateway, it.model, first, LONG)));
      assert.equal(marks, [undefined, undefined, undefined]);
      assert.is(it.runners.numCudaStarts(), 2);
      assert.equal((await backendOf(gateway)).serving, 'cuda');
      assert.is((await gateway.health()).runner.restarts, 1);
    });
  });
});

test('two runners on one device have equal parts of it; one is killed, and its streams go on in the other', async () => {
  await world(true, async (it) => {
    await served(it, [...cuda, '--runners', '2'], async (gateway) => {
      const runners = runnersOf(await gateway.healthWhere(areReady, 'Both runners'));
      assert.is(runners.length, 2);
      assert.is(runners[0]?.kv_blocks, runners[1]?.kv_blocks);
      const marks = [1, 2, 3, 4].map((first) => answer(gateway, it.model, first, LONG));
      await gateway.healthWhere(({ runner }) => runner.open_requests === 4, 'All streams');
      // A later request has all its tokens, so the streams have some.
      await answer(gateway, it.model, 5, 5);
      process.kill(runners[0]?.pid ?? 0, 'SIGKILL');
      assert.equal(await Promise.all(marks), [undefined, undefined, undefined, undefined]);
      await until(patienceMs, 'The next runner', () => it.runners.numCudaStarts() === 3);
    });
  });
});

test('two devices compute a model and gather by NCCL; one is gone after a kill, and the streams go on by the other alone', async () => {
  await world(true, async (it) => {
    it.runners.setNumDevices(2);
    const flags = [...cuda, '--tensor-parallel-size', '2', '--all-gather-backend', 'nccl'];
    await served(it, flags, async (gateway) => {
      const { runner } = await gateway.healthWhere(({ runner }) => runner.state === 'ready', 'The runner');
      assert.match(gateway.log, '2 times emulated GPU');
      assert.match(gateway.log, /NCCL [0-9.]+ \(/);
      const marks = [1, 2, 3].map((first) => answer(gateway, it.model, first, LONG));
      await gateway.healthWhere(({ runner }) => runner.open_requests === 3, 'All streams');
      // A later request has all its tokens, so the streams have some.
      await answer(gateway, it.model, 4, 5);
      it.runners.setNumDevices(1);
      process.kill(runner.pid ?? 0, 'SIGKILL');
      assert.equal(await Promise.all(marks), [undefined, undefined, undefined]);
      assert.match(gateway.log, 'A GPU is left out: GPU 1 does not exist');
    });
  });
});

test('--backend cuda without a device serves nothing, says why and retries', async () => {
  await world(true, async (it) => {
    it.runners.setDevice(false);
    await served(it, cuda, async (gateway) => {
      await until(patienceMs, 'Three attempts', () => it.runners.numCudaStarts() >= 3);
      const response = await fetch(`${gateway.url}/ready`);
      assert.is(response.status, 503);
      assert.ok(response.headers.get('retry-after'));
      assert.match(await response.text(), ABSENT);
      await assertTexts(gateway, [false, false]);
      it.runners.setDevice(true);
      await gateway.ready();
      assert.is((await backendOf(gateway)).serving, 'cuda');
    });
  });
});

function run(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile('node', ['gateway/runnel.js', ...args], { cwd: ROOT }, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout, stderr });
    });
  });
}

test('--backend cuda, not built: no start, one sentence with the file and the command, status 64', async () => {
  await world(false, async ({ model, flags }) => {
    const runs = [
      ['serve', '--port', '0', '--log-level', 'silent'],
      ['generate', 'hello'],
    ].map((command) => within(patienceMs, 'The exit', run(...command, '--model', model, ...flags, ...cuda)));
    for (const { code, stderr } of await Promise.all(runs)) {
      assert.is(code, 64);
      assert.match(
        stderr,
        /^runnel: CUDA backend requested but cuda-runner is not built: .*not-built does not exist; "make cuda-runner" builds it, --cuda-runner names another one\.\n$/,
      );
    }
  });
});

test('offline, the same choice: auto answers by the CPU and says so, cuda ends with the device’s sentence', async () => {
  await world(true, async ({ runners, model, flags }) => {
    runners.setDevice(false);
    const generate = ['generate', '--model', model, ...flags, '--max-tokens', '5', 'hello'];
    const [byAuto, byCuda] = await Promise.all([run(...generate), run(...generate, ...cuda)]);
    assert.is(byAuto.code, 0, byAuto.stderr);
    assert.match(byAuto.stderr, FALLING_BACK);
    assert.is(byCuda.code, 69);
    assert.match(byCuda.stderr, ABSENT);
  });
});

test('settings that are read again may name another backend; what is not built changes nothing', async () => {
  const directory = temporaryDirectory();
  const model = writeLlama(directory, 'a');
  const { cpuRunner, cudaRunner } = emulatedRunners(directory);
  const settings = { runner: cpuRunner, 'cuda-runner': cudaRunner };
  const config = directory.write('config.json', JSON.stringify({ ...settings, backend: 'cuda' }));
  const gateway = await (await Gateway.start(model, ['--config', config])).ready();
  try {
    // The emulated device takes several times longer for this many tokens than the next runner takes to become ready.
    const open = answer(gateway, model, 1, 2000);
    await gateway.healthWhere(({ runner }) => runner.open_requests === 1, 'The stream');
    // The later request has all its tokens, so the stream has some.
    await answer(gateway, model, 2, 5);
    directory.write('config.json', JSON.stringify({ ...settings, backend: 'cpu' }));
    assert.is((await gateway.post('/runner/restart', { wait: true })).status, 200);
    assert.is((await backendOf(gateway)).serving, 'cpu');
    directory.write(
      'config.json',
      JSON.stringify({ ...settings, 'cuda-runner': '/nowhere', backend: 'cuda' }),
    );
    const refused = await gateway.post('/runner/restart', { wait: true });
    assert.is(refused.status, 409);
    assert.match(await refused.text(), '/nowhere does not exist');
    assert.is(await open, undefined, 'moved from one device to the other, and not marked');
  } finally {
    await gateway.stop();
  }
});

test.run();
