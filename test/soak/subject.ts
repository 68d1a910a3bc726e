/** What is soaked: the default model with its runner, or the gateway by itself over a fake runner, which can be killed far more often. */
import { chmodSync } from 'node:fs';
import { basename } from 'node:path';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { writeFakeModel } from '../fixtures/fake-model-file.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { fakeCommand } from '../fixtures/supervised.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

/** Small enough for a runner to have touched all of it within a minute: what grows after that is a leak. */
const CACHE_BYTES = 64 * 2 ** 20;
const FAKE_STEP_MS = 2;

export interface Subject {
  readonly name: string;
  /** As clients name the model. */
  readonly modelId: string;
  /**
   * The part of the time in which runners are killed. In what is left one runner lives on, whose memory is judged: how much a young
   * one has tells how old it is. 1: the runner's memory is not judged.
   */
  readonly killingFraction: number;
  readonly killEverySec: number;
  /** The gateway, with the probe of the soak in it. */
  start(): Promise<Gateway>;
}

/** Variables that put the probe into a gateway. */
export const PROBE = { NODE_OPTIONS: `--import ${new URL('./probe.mjs', import.meta.url).href}` };

export function defaultModel(): Subject {
  const args = ['--port', '0', '--kv-cache-bytes', String(CACHE_BYTES)];
  return {
    name: `${basename(DEFAULT_MODEL, '.gguf')} on cpu-runner`,
    modelId: basename(DEFAULT_MODEL, '.gguf'),
    killingFraction: 2 / 3,
    killEverySec: 20,
    start: () => Gateway.startOn(DEFAULT_MODEL, [...args, '--backend', 'cpu'], { env: PROBE }),
  };
}

export function gatewayAlone(): Subject {
  const folder = temporaryFolder();
  const model = writeFakeModel(folder, 'fake');
  const { file, args } = fakeCommand('--model', `${model}.identity`, '--delay-ms', String(FAKE_STEP_MS));
  // A process of node as well, which needs no probe.
  const runner = folder.write(
    'runner',
    `#!/bin/sh\nunset NODE_OPTIONS\nexec ${[file, ...args].map((word) => `'${word}'`).join(' ')}\n`,
  );
  chmodSync(runner, 0o755);
  return {
    name: 'the gateway over a fake runner',
    modelId: 'fake',
    killingFraction: 1,
    killEverySec: 1,
    start: () =>
      Gateway.startOn(model, ['--port', '0', '--backend', 'cpu', '--runner', runner], { env: PROBE }),
  };
}
