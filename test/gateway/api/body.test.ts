import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import * as z from 'zod';
import { parseBody } from '../../../gateway/api/body.ts';

const test = suite('body');

test('a body without nulls is parsed itself, not a copy; nulls are dropped', () => {
  let read: unknown;
  const message = z.object({ content: z.string(), name: z.string().optional() });
  const fields = z.object({ messages: z.array(message), user: z.string().optional() });
  const schema = z.preprocess((body) => (read = body), fields);
  const messages = [{ content: 'one' }, { content: 'two', name: 'a' }];
  const whole = { messages };
  parseBody(schema, whole);
  assert.is(read, whole);
  parseBody(schema, { messages, user: null });
  assert.equal(read, whole);
  assert.is((read as typeof whole).messages, messages);
  parseBody(schema, { messages: [{ content: 'one', name: null }, messages[1]] });
  assert.equal(read, whole);
});

test.run();
