import { suite } from 'uvu';
import { exitPolicy } from '../../../../gateway/runner/supervision/exit-policy.ts';
import { deathBy } from '../../../fixtures/death.ts';
import { recordedCases } from '../../../fixtures/recorded-cases.ts';

const policy = suite('exit policy');

function followsFrom(line: string): string {
  // JSON has no undefined.
  const change = JSON.parse(line, (_, value) => (value === null ? undefined : value));
  const never = line.includes('"readyForMs":null') ? { readyForMs: undefined } : {};
  const { action, crash, isOfDevice, reason, ...counts } = exitPolicy(deathBy({ ...change, ...never }));
  const counted = Object.entries({
    backoff: counts.countsForBackoff,
    starts: counts.countsForStarts,
    requests: counts.countsForRequests,
  }).filter(([, isCounted]) => isCounted);
  return [
    action,
    `counts for ${counted.map(([name]) => name).join(', ') || 'nothing'}`,
    crash === undefined ? 'no crash' : `crash ${JSON.stringify(crash)}`,
    ...(isOfDevice ? ['of the device'] : []),
    reason,
  ].join('; ');
}

recordedCases(policy, import.meta.url, followsFrom);

policy.run();
