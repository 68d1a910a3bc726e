import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parseDeadline } from '../../../../gateway/api/native/deadline.ts';
import { ApiError } from '../../../../gateway/errors/api-error.ts';

const test = suite('deadline');

test('a deadline is Unix milliseconds or ISO 8601 with a zone', () => {
  const moment = Date.UTC(2026, 0, 2, 3, 4, 5);
  assert.is(parseDeadline(undefined), undefined);
  for (const same of [
    String(moment),
    '2026-01-02T03:04:05Z',
    '2026-01-02T03:04:05.000Z',
    '2026-01-02T04:04:05+01:00',
  ]) {
    assert.is(parseDeadline(same), moment, same);
  }
  assert.is(parseDeadline('2026-01-02T03:04Z'), moment - 5000);
});

test('an invalid deadline is refused with its value', () => {
  for (const bad of [
    '',
    'soon',
    '-1',
    '1e3',
    '1.5',
    '2026-01-02',
    '2026-01-02T03:04:05',
    '2026-13-02T03:04:05Z',
    ' 1',
  ]) {
    assert.throws(
      () => parseDeadline(bad),
      (error: unknown) =>
        error instanceof ApiError && error.status === 400 && error.fieldErrors[0]?.value === bad,
      JSON.stringify(bad),
    );
  }
});

test.run();
