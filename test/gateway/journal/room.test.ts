/** Which jobs the journal forgets for one more, and whose job it refuses. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Holding, NoRoom, roomFor } from '../../../gateway/journal/room.ts';
import type { Caller } from '../../../gateway/system/caller.ts';
import { callerNamed } from '../../fixtures/keys.ts';

const test = suite('journal room');

interface Job extends Holding {
  readonly id: string;
}

const greedy = callerNamed('greedy');
const other = callerNamed('other');
const BYTES = 10;
const jobs = 100;
const bytes = 1_000_000;

/** A job that may grow to ten bytes. endedMs: undefined while it runs. */
function jobOf(sharer: Caller, id: string, endedMs?: number, numBytes = BYTES): Job {
  return { id, sharer, endedMs, numBytes: 1, reservedBytes: numBytes };
}

const running = (sharer: Caller, ...ids: readonly string[]): Job[] => ids.map((id) => jobOf(sharer, id));
const ended = (sharer: Caller, ...ids: readonly string[]): Job[] =>
  ids.map((id, index) => jobOf(sharer, id, 1000 + index));

/** The ids of the jobs that are forgotten, or why there is no room. */
function forgotten(sharer: Caller, kept: readonly Job[], bounds: { maxJobs?: number; maxBytes?: number }) {
  const limits = { maxJobs: jobs, maxBytes: bytes, ...bounds };
  const room = roomFor(jobOf(sharer, 'new'), kept, limits);
  return room instanceof NoRoom ? room.message : room.map(({ id }) => id);
}

test('a journal with room forgets nothing, whoever has it', () => {
  const kept = [...running(greedy, 'r'), ...ended(greedy, 'e')];
  assert.equal(forgotten(greedy, kept, { maxJobs: 3 }), []);
  assert.equal(forgotten(other, kept, { maxJobs: 3 }), []);
});

test('a full journal forgets the oldest ended jobs of the caller first', () => {
  const kept = [...ended(other, 'o'), ...running(greedy, 'r'), ...ended(greedy, 'e1', 'e2')];
  assert.equal(forgotten(greedy, kept, { maxJobs: 4 }), ['e1']);
  assert.equal(forgotten(greedy, kept, { maxBytes: 3 * BYTES }), ['e1', 'e2']);
  const older = [...ended(greedy, 'g1', 'g2', 'g3'), jobOf(other, 'latest', 9000)];
  assert.equal(forgotten(other, older, { maxJobs: 4 }), ['latest'], 'though another has more than its share');
});

test('a caller beyond its share forgets no job of others, and is refused', () => {
  const kept = [...running(greedy, 'r1', 'r2', 'r3'), ...ended(other, 'o')];
  assert.match(String(forgotten(greedy, kept, { maxJobs: 4 })), /^The journal is full: it has 4 jobs/);
});

test('a caller within its share gets the room of ended jobs of those that have more', () => {
  const kept = [...ended(greedy, 'e1', 'e2', 'e3', 'e4')];
  assert.equal(forgotten(other, kept, { maxJobs: 4 }), ['e1']);
  const twice = callerNamed('twice', { shares: 2 });
  assert.equal(forgotten(twice, [...running(twice, 't'), ...ended(greedy, 'e1', 'e2')], { maxJobs: 3 }), [
    'e1',
  ]);
});

test('running jobs of one caller that reserve the whole journal do not keep another from its share', () => {
  const kept = running(greedy, ...Array.from({ length: 73 }, (_, index) => `r${index}`));
  const full = { maxBytes: 73 * BYTES };
  assert.match(String(forgotten(greedy, kept, full)), /730 of the 730 bytes of --journal-max-bytes/);
  const others: Job[] = [];
  let refusal: unknown;
  while (refusal === undefined) {
    const room = forgotten(other, [...kept, ...others], full);
    if (typeof room === 'string') refusal = room;
    else {
      assert.equal(room, [], 'there is nothing to forget');
      others.push(...running(other, `o${others.length}`));
    }
  }
  assert.is(others.length, 36, 'half of what the limit has room for');
});

test('beyond the limit a caller’s own ended jobs make room within its share', () => {
  const kept = [...running(greedy, 'r1', 'r2', 'r3', 'r4'), ...ended(other, 'o1', 'o2')];
  assert.equal(forgotten(other, kept, { maxJobs: 4 }), ['o1']);
  assert.equal(forgotten(other, kept.slice(0, 5), { maxJobs: 4 }), [], 'a share of two jobs');
});

test('a quota holds for a caller that is alone: its ended jobs are forgotten, then it is refused', () => {
  const bounded = callerNamed('bounded', { quotas: { journalJobs: 2, journalBytes: 2 * BYTES } });
  assert.equal(forgotten(bounded, ended(bounded, 'e1', 'e2'), {}), ['e1']);
  assert.is(
    forgotten(bounded, [...ended(greedy, 'g'), ...running(bounded, 'r1', 'r2')], {}),
    'The caller "bounded" has 2 unfinished jobs in the journal, and one more would exceed its quota of 2 (max-journal-jobs in the keys file).',
  );
  const bytesOnly = callerNamed('bounded', { quotas: { journalBytes: 2 * BYTES } });
  assert.is(
    forgotten(bytesOnly, running(bytesOnly, 'r1', 'r2'), {}),
    'The unfinished jobs of the caller "bounded" may take 20 bytes of the journal, and this one, which may take 10, would exceed its quota of 20 (max-journal-bytes in the keys file).',
  );
});

test('a job that is larger than a limit by itself is told that waiting does not help', () => {
  const tight = callerNamed('tight', { quotas: { journalBytes: BYTES - 1 } });
  const isHopeless = (sharer: Caller, maxBytes: number) => {
    const room = roomFor(jobOf(sharer, 'new'), [], { maxJobs: jobs, maxBytes });
    return room instanceof NoRoom && room.isForever;
  };
  assert.equal(
    [isHopeless(tight, bytes), isHopeless(other, BYTES - 1), isHopeless(other, BYTES)],
    [true, true, false],
  );
});

test.run();
