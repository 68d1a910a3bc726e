import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { configOfStage } from '../../deploy/containerfile.ts';

const test = suite('Containerfile');
const text = readFileSync(new URL('../../deploy/Containerfile', import.meta.url), 'utf8');
const cpu = configOfStage(text, 'cpu');

test('a stage is configured as its instructions say, in the form of an image', () => {
  const { Healthcheck, Cmd, ...config } = cpu;
  assert.equal(config, {
    User: '10001:10001',
    WorkingDir: '/var/lib/runnel',
    Env: [
      'NODE_ENV=production',
      'HOME=/var/lib/runnel',
      'RUNNEL_CACHE=/var/lib/runnel',
      'HF_HOME=/var/lib/runnel/huggingface',
    ],
    Entrypoint: ['runnel'],
    ExposedPorts: { '8080/tcp': {} },
    Volumes: { '/models': {}, '/var/lib/runnel': {} },
    StopSignal: 'SIGTERM',
  });
  assert.is(Cmd[0], 'serve');
  const { Test, ...times } = Healthcheck;
  assert.equal(Test.slice(0, 3), ['CMD', 'node', '-e']);
  assert.equal(times, { Interval: 10e9, Timeout: 5e9, StartPeriod: 60e9 });
});

test('the variant for CUDA is that for the CPU, and asks NVIDIA’s toolkit for all devices', () => {
  const { Env, ...cuda } = configOfStage(text, 'cuda');
  assert.equal(Env, [...cpu.Env, 'NVIDIA_VISIBLE_DEVICES=all', 'NVIDIA_DRIVER_CAPABILITIES=compute,utility']);
  const { Env: _, ...same } = cpu;
  assert.equal(cuda, same);
});

test('a stage without what an image needs is refused', () => {
  assert.throws(() => configOfStage(text, 'none'), 'The stage none of the Containerfile has no USER.');
});

test.run();
