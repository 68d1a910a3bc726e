import { closeSync, openSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  connectionsWithin,
  ownDescriptors,
  reservedDescriptors,
} from '../../../gateway/server/descriptor-budget.ts';

const test = suite('descriptor budget');

test('the connection limit is the requested one or what the descriptors allow', () => {
  assert.is(connectionsWithin({ limit: 65_536, inUse: 30 }, 1024), 1024);
  assert.is(connectionsWithin({ limit: undefined, inUse: 30 }, 1024), 1024);
  assert.is(connectionsWithin({ limit: 64, inUse: 22 }, 1024), 64 - 22 - reservedDescriptors);
  assert.is(connectionsWithin({ limit: 40, inUse: 22 }, 1024), 0);
});

test('its own descriptors are counted as the kernel has them', () => {
  const { limit, inUse } = ownDescriptors();
  assert.ok(limit === undefined || limit > inUse, `${inUse} of ${limit}`);
  const files = [1, 2, 3].map(() => openSync('/dev/null', 'r'));
  assert.is(ownDescriptors().inUse, inUse + files.length);
  for (const file of files) closeSync(file);
});

test.run();
