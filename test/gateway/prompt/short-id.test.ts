import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { shortId } from '../../../gateway/prompt/short-id.ts';

const test = suite('short-id');

test('an id gets 9 letters and digits, the same each time, and keeps those that it has', () => {
  assert.is(shortId('abc123DEF'), 'abc123DEF');
  const ids = ['call_1', 'call_2', 'toolu_0123456789', '', 'abc-23DEF'].map(shortId);
  assert.is(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^[a-zA-Z0-9]{9}$/);
  assert.is(shortId('call_1'), ids[0]);
});

test.run();
