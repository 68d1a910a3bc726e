import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { statusLine } from '../../../gateway/systemd/notifier.ts';

const test = suite('status line');

const ready = { state: 'ready', openRequests: 12, loadProgress: undefined, reason: undefined } as const;

test('it says the state, the streams and the model, and of another state than ready the reason', () => {
  assert.is(statusLine(ready, 'smollm2'), 'ready, 12 streams, smollm2');
  assert.is(statusLine({ ...ready, openRequests: 1 }, 'smollm2'), 'ready, 1 stream, smollm2');
  assert.is(
    statusLine(
      { state: 'starting', openRequests: 0, loadProgress: 0.429, reason: 'The runner is starting.' },
      'a',
    ),
    'starting, 0 streams, a (42 % loaded): The runner is starting.',
  );
  const backend = { requested: 'auto', isFallback: true, reason: 'No device.' } as const;
  assert.is(statusLine({ ...ready, backend }, 'a'), 'ready, 12 streams, a, on the CPU instead of CUDA');
});

test('it is one line of bounded length, whatever the reason holds', () => {
  const line = statusLine(
    { ...ready, state: 'failed', reason: `a\nREADY=1\tB=1${'x'.repeat(1000)}` },
    'smollm2',
  );
  assert.not.match(line, /[\n\t]/);
  assert.is(line.length, 300);
});

test.run();
