/**
 * A runner controlled by an attacker sends as much as its pipes take. Meanwhile the gateway still answers, obeys
 * SIGTERM, and stops the runner. RUNNEL_TEST_FLOOD_SECONDS: the duration of each flood. The kinds of a flood take
 * turns.
 */
import { renameSync } from 'node:fs';
import { loadavg } from 'node:os';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { writeFakeModel } from '../fixtures/fake-model-file.ts';
import { Gateway, isAlive } from '../fixtures/gateway.ts';
import { type DelaysAndWork, pollHealthAndWork } from '../fixtures/health-poller.ts';
import { fakeRunner } from '../fixtures/stand-in-runners.ts';
import { type Directory, temporaryDirectory } from '../fixtures/supervised.ts';
import { PATIENCE_MS, until } from '../fixtures/within.ts';

const FLOOD_MS = 1000 * Number(process.env.RUNNEL_TEST_FLOOD_SECONDS ?? 1);
const MIN_KIND_MS = 1000;
/** A flood lasts until so many questions have been answered, however busy the machine is. */
const MIN_ANSWERS = 20;
/**
 * The most processor time that the gateway may spend on a flood between two answers: ten times what an idle machine
 * shows. A busy machine does not change it.
 */
const MAX_WORK_MS = 100;
const MAX_REQUESTS = 16;

const test = suite('hostile runner');

interface Attack {
  readonly kinds: readonly string[];
  /** Matches the reason for which the gateway ends such runners. undefined: the flood is no violation and is only slowed down. */
  readonly violation?: RegExp;
}

const attacks: Readonly<Record<string, Attack>> = {
  stderr: { kinds: ['stderr'] },
  frames: {
    kinds: ['heartbeats', 'stats', 'empty-steps', 'zero-tokens', 'two-members'],
    violation: /again and again|brought nothing|number of Output.token_ids|more than one message/,
  },
  claims: { kinds: ['claims'], violation: /says .* the model file/ },
};

interface World {
  readonly gateway: Gateway;
  flood(kind: string, lastsMs: number): Promise<DelaysAndWork>;
}

async function attacked(directory: Directory, first: string): Promise<World> {
  const model = writeFakeModel(directory, 'model');
  const kindFile = directory.write('kind', first);
  const runner = fakeRunner(directory, '--model', `${model}.identity`, '--flood-file', kindFile);
  // Open requests cannot finish with such a runner.
  const drain = ['--drain-timeout-sec', '2'];
  const gateway = await Gateway.start(model, ['--backend', 'cpu', '--runner', runner, ...drain]);
  return {
    gateway,
    flood: async (kind, lastsMs) => {
      // A runner that starts meanwhile reads one kind or the other.
      renameSync(directory.write('next-kind', kind), kindFile);
      await restart(gateway);
      const measured = pollHealthAndWork(gateway);
      const end = performance.now() + lastsMs;
      let numAsked = 0;
      for (let numAnswers = 0; performance.now() < end || numAnswers < MIN_ANSWERS; numAnswers++) {
        // If the runner has failed, it is restarted at once and the flood goes on.
        const { runner: now } = await gateway.health();
        if (now.state === 'failed' || now.state === 'starting') await restart(gateway);
        if (now.open_requests < MAX_REQUESTS) void ask(gateway, `${kind} ${numAsked++}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      return measured();
    },
  };
}

/** The reasons for which runners ended unasked. */
function endsOf(log: string): string[] {
  const lines = log.split('\n').filter((line) => line.includes('"event":"runner_exited"'));
  return lines.flatMap((line) => /"reason":"([^"]*)"/.exec(line)?.[1] ?? []);
}

function isSilence(end: string): boolean {
  return end.includes('no heartbeat came');
}

async function restart(gateway: Gateway): Promise<void> {
  await (await gateway.post('/runner/restart', {})).text();
}

/** How the request ends does not matter. */
async function ask(gateway: Gateway, jobId: string): Promise<void> {
  const body = JSON.stringify({ job_id: jobId, prompt: 'Once', max_tokens: 1000 });
  const headers = { 'content-type': 'application/json' };
  await fetch(`${gateway.url}/execute`, { method: 'POST', headers, body })
    .then((response) => response.text())
    .catch(() => {});
}

for (const [name, { kinds, violation }] of Object.entries(attacks)) {
  test(`a flood of ${name}: /health answers, SIGTERM works, the runner is stopped`, async () => {
    const directory = temporaryDirectory();
    const { gateway, flood } = await attacked(directory, kinds[0] ?? '');
    const lastsMs = Math.max(MIN_KIND_MS, FLOOD_MS / kinds.length);
    try {
      for (const kind of kinds) {
        const { count, p50Ms, p99Ms, numFailed, workMs } = await flood(kind, lastsMs);
        const figures = `p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms of ${count}, ${workMs.toFixed(1)} ms of work between two`;
        console.log(
          `${Math.round(lastsMs / 1000)} seconds of ${kind}: /health ${figures}, load ${loadavg()[0]?.toFixed(1)}`,
        );
        assert.is(numFailed, 0, kind);
        assert.ok(workMs <= MAX_WORK_MS, `${kind}: ${figures}`);
      }
      // A runner that is blocked writing its log may send a heartbeat too late on a busy machine. That is no violation.
      if (violation === undefined)
        assert.equal(
          endsOf(gateway.log).filter((end) => !isSilence(end)),
          [],
        );
      else await until(PATIENCE_MS, 'the end of a runner', () => violation.test(gateway.log));
    } finally {
      const begin = performance.now();
      const { code } = await gateway.stop();
      const tookMs = performance.now() - begin;
      console.log(`SIGTERM in a flood of ${name}: ${tookMs.toFixed(0)} ms`);
      assert.is(code, 0, gateway.log.slice(-2000));
    }
    const pids = [...gateway.log.matchAll(/"event":"model_load_start","pid":(\d+)/g)].map(([, pid]) =>
      Number(pid),
    );
    assert.ok(pids.length > 0, 'runners were started');
    assert.equal(pids.filter(isAlive), [], 'no runner is left');
  });
}

test.run();
