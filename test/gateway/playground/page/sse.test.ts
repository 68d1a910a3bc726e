import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SseParser } from '../../../../gateway/playground/page/sse.ts';

const test = suite('playground sse');

const STREAM = 'data: {"a":1}\n\n: keep-alive\n\nid: 7\ndata: first\r\ndata:second\r\n\r\ndata: [DONE]\n\n';
const EVENTS = ['{"a":1}', 'first\nsecond', '[DONE]'];

test('events are the same however the stream is cut', () => {
  assert.equal(new SseParser().push(STREAM), EVENTS);
  for (let cut = 0; cut <= STREAM.length; cut += 1) {
    const parser = new SseParser();
    assert.equal(
      [...parser.push(STREAM.slice(0, cut)), ...parser.push(STREAM.slice(cut))],
      EVENTS,
      String(cut),
    );
  }
  const parser = new SseParser();
  assert.equal(
    [...STREAM].flatMap((letter) => parser.push(letter)),
    EVENTS,
  );
});

test('an event without its end is none', () => {
  assert.equal(new SseParser().push('data: half\n'), []);
});

test.run();
