import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { pacedRunner } from '../fixtures/default-model.ts';
import { Gateway, gatewaySuite } from '../fixtures/gateway.ts';
import { runnel } from '../fixtures/ran.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

/** A model that rotates heads in one of two ways, as the longest context decides: what one computes, the other does not continue. */

const test = gatewaySuite('two ropes');
const folder = temporaryFolder();
const PHI3 = fileURLToPath(new URL('../golden/models/phi3-f32.gguf', import.meta.url));
/** The context that the model was first trained for, of 512. */
const SHORT = ['--max-model-len', '128'];
const FLAGS = ['--backend', 'cpu', '--threads', '1', '--served-model-name', 'tiny'];
/** Of each step, so that the parking finds its job unfinished. */
const STEP_MS = 4;

test('a receipt says which of the two has computed its answer, and is verified by a context with the same', async () => {
  const gateway = await (await Gateway.start(PHI3, [...FLAGS, ...SHORT])).ready();
  const body = { model: 'tiny', prompt: 'Once', max_tokens: 12, seed: 3, receipt: 'full' };
  const answer = await (await gateway.post('/v1/completions', body)).json();
  await gateway.stop();
  assert.is(answer.choices[0].receipt.numerics, 'i8-1-short');
  const file = folder.write('short.json', JSON.stringify(answer));
  const verify = (...flags: string[]) =>
    runnel('verify', '--backend', 'cpu', '--model', PHI3, file, ...flags);
  const found = verify();
  assert.is(found.status, 4, found.stdout + found.stderr);
  assert.match(found.stdout, 'i8-1-short; those of the runner here are i8-1-long');
  const equal = verify('--max-model-len', '100');
  assert.is(equal.status, 0, equal.stdout + equal.stderr);
});

test('a parked job that the other one would resume ends with an error that names both', async () => {
  const journal = join(folder.path, 'journal');
  const flags = [...FLAGS, '--journal-dir', journal, '--runner', pacedRunner(STEP_MS)];
  const long = await (await Gateway.start(PHI3, flags)).ready();
  const job = { job_id: 'kept', durable: true, prompt: 'Once', max_tokens: 100, seed: 3 };
  const { body } = await long.post('/execute', job);
  for await (const piece of body ?? []) if (Buffer.from(piece).includes('event: token')) break;
  const parked = await long.post('/jobs/kept/park', {});
  assert.is(((await parked.json()) as { status: string }).status, 'parked');
  await long.stop();
  const short = await (await Gateway.start(PHI3, [...flags, ...SHORT])).ready();
  assert.is((await short.post('/jobs/kept/resume', {})).status, 200);
  const events = await (await fetch(`${short.url}/execute/kept/events`)).text();
  assert.match(events, 'event: token');
  assert.match(
    events,
    'The numerics of the runner changed after this job began, from i8-1-long to i8-1-short',
  );
});

test.run();
