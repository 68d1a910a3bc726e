import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Death, exitPolicy } from '../../../../gateway/runner/supervision/exit-policy.ts';
import { deathBy } from '../../../fixtures/death.ts';

function failure(exitCode: number, message: string): Death['failure'] {
  return { type: 'failure', exitCode, message, device: '' };
}

const policy = suite('exit policy');

policy('follows the table of docs/protocol.md', () => {
  const actions = [0, 64, 65, 66, 69, 70, 71, 74, 75, 76, 77, 78, 79, 1, 134].map((code) => [
    code,
    exitPolicy(deathBy({ code })).action,
  ]);
  assert.equal(actions, [
    [0, 'restart'],
    [64, 'fail'],
    [65, 'wait_for_file'],
    [66, 'wait_for_file'],
    [69, 'restart'],
    [70, 'restart'],
    [71, 'restart'],
    [74, 'restart'],
    [75, 'restart'],
    [76, 'restart'],
    [77, 'wait_for_file'],
    [78, 'fail'],
    [79, 'restart'],
    [1, 'restart'],
    [134, 'restart'],
  ]);
});

policy('a crash counts, somebody’s kill does not', () => {
  const counts = (change: Parameters<typeof deathBy>[0]) => {
    const { countsForBackoff, countsForStarts, countsForRequests } = exitPolicy(deathBy(change));
    return [countsForBackoff, countsForStarts, countsForRequests];
  };
  assert.equal(counts({ signal: 'SIGSEGV' }), [true, true, true]);
  assert.equal(counts({ code: 70 }), [true, true, true]);
  assert.equal(counts({ code: 71 }), [true, true, false]);
  assert.equal(counts({ signal: 'SIGKILL' }), [false, false, false]);
  assert.equal(
    counts({ signal: 'SIGKILL', readyForMs: undefined }),
    [true, false, false],
    'a load may be killed in a loop',
  );
  const verdict = { kind: 'violation', sentence: 'It lied.' } as const;
  assert.equal(counts({ signal: 'SIGKILL', verdict }), [true, true, true], 'our own kill follows a fault');
});

policy('the breaker counts crashes by kind, some with a lower limit', () => {
  const crashOf = (change: Parameters<typeof deathBy>[0]) => exitPolicy(deathBy(change)).crash;
  assert.equal(crashOf({ signal: 'SIGSEGV' }), { kind: 'SIGSEGV' });
  assert.equal(crashOf({ code: 70 }), { kind: 'status 70' });
  assert.equal(crashOf({ code: 79 }), { kind: 'device', maxOfKind: 1 });
  assert.equal(crashOf({ signal: 'SIGBUS' }), { kind: 'bus', maxOfKind: 1 });
  assert.equal(crashOf({ signal: 'SIGILL' }), { kind: 'instruction', maxOfKind: 1 });
  assert.equal(crashOf({ signal: 'SIGKILL', isOutOfMemory: true }), { kind: 'memory', maxOfKind: 2 });
  const surroundings = [{ code: 69 }, { code: 71 }, { code: 75 }, { spawnError: 'x' }, { signal: 'SIGKILL' }];
  for (const change of surroundings) assert.is(crashOf(change), undefined);
});

policy(
  'no request is suspected of what is around the runner; none goes on after a breach of the sandbox',
  () => {
    const memory = exitPolicy(deathBy({ signal: 'SIGKILL', isOutOfMemory: true }));
    assert.is(memory.countsForRequests, false);
    assert.match(memory.reason, /memory ran out.*--kv-cache-bytes/);
    for (const change of [{ code: 69 }, { code: 71 }, { code: 75 }, { spawnError: 'x' }])
      assert.is(exitPolicy(deathBy(change)).countsForRequests, false);
    assert.is(exitPolicy(deathBy({ signal: 'SIGSYS' })).action, 'wait_for_file');
    const verdict = { kind: 'hung', sentence: 'It hung.' } as const;
    assert.is(exitPolicy(deathBy({ signal: 'SIGKILL', verdict, isOutOfMemory: true })).reason, 'It hung.');
  },
);

policy(
  'silence is counted for the breaker and the delay, and against no request; a step that hangs is',
  () => {
    const counts = (kind: 'silent' | 'hung') => {
      const death = deathBy({ signal: 'SIGABRT', verdict: { kind, sentence: 'Nothing came.' } });
      const { countsForBackoff, countsForStarts, countsForRequests, crash } = exitPolicy(death);
      return [countsForBackoff, countsForStarts, countsForRequests, crash?.kind];
    };
    assert.equal(counts('silent'), [true, true, false, 'silent']);
    assert.equal(counts('hung'), [true, true, true, 'hung']);
  },
);

policy('another device takes over when this one is absent, lost or too small', () => {
  const ofDevice = (change: Parameters<typeof deathBy>[0]) => exitPolicy(deathBy(change)).isOfDevice;
  const never = { readyForMs: undefined };
  for (const change of [{ code: 69 }, { code: 79 }, { code: 71, ...never }]) assert.ok(ofDevice(change));
  for (const change of [{ code: 71 }, { code: 64 }, { code: 65 }, { code: 70 }, { signal: 'SIGSEGV' }])
    assert.not(ofDevice(change), JSON.stringify(change));
});

policy('another protocol version is not tried again', () => {
  const verdict = { kind: 'version', sentence: 'Versions 999 and 1.' } as const;
  const { action, reason } = exitPolicy(deathBy({ signal: 'SIGKILL', verdict }));
  assert.equal([action, reason], ['fail', 'Versions 999 and 1.']);
});

policy('says it in the runner’s own words if it has any for this exit', () => {
  const reason = (change: Parameters<typeof deathBy>[0]) => exitPolicy(deathBy(change)).reason;
  assert.is(reason({ code: 65, failure: failure(65, 'No magic.') }), 'No magic.');
  assert.is(
    reason({ code: 65 }),
    'The runner exited with status 65: the model file is damaged or not supported.',
  );
  assert.is(reason({ code: 65, failure: failure(65, '') }), reason({ code: 65 }));
  assert.is(
    reason({ signal: 'SIGSEGV', failure: failure(65, 'No magic.') }),
    'The runner was ended by SIGSEGV.',
  );
  assert.is(reason({ code: 0 }), 'The runner exited with status 0 without being asked to.');
  assert.is(reason({ code: 3 }), 'The runner exited with status 3.');
  assert.is(reason({ spawnError: 'spawn x ENOENT' }), 'The runner could not be started: spawn x ENOENT');
});

policy('an invalid command line is reported in the runner’s own words', () => {
  const stderrTail = 'something earlier\ncpu-runner: --threads: 0 is not in range.\n';
  assert.is(
    exitPolicy(deathBy({ code: 64, stderrTail })).reason,
    'cpu-runner: --threads: 0 is not in range.',
  );
});

policy.run();
