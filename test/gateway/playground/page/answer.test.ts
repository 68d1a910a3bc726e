import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Answer } from '../../../../gateway/playground/page/answer.ts';
import { type ChatEvent, eventsOf } from '../../../../gateway/playground/page/chat.ts';
import type { Span } from '../../../../gateway/playground/page/tokens.ts';

const test = suite('playground answer');

const token = { text: 'x', probability: 1, alternatives: [] };

/** An answer that was requested at time 0, with a span at each of these times, and a check of the server after the first. */
function answerWith(...times: number[]): Answer {
  const answer = new Answer('model', 0);
  for (const [index, time] of times.entries()) {
    say(answer, time);
    if (index === 0) answer.noteRunner(0, false);
  }
  return answer;
}

function say(answer: Answer, time: number): void {
  answer.take({ type: 'text', spans: [{ text: `${time} `, tokens: [token] }] }, time);
}

function pausesOf(answer: Answer): [string, number][] {
  const spans: Span[] = answer.chunks.flat();
  return spans.flatMap(({ text, pauseMs }) => (pauseMs === undefined ? [] : [[text, pauseMs]]));
}

test('the page measures the time to the first token and the later rate', () => {
  const answer = answerWith();
  assert.is(answer.timeToFirstTokenMs, undefined);
  say(answer, 200);
  assert.equal([answer.timeToFirstTokenMs, answer.tokensPerSecond, answer.numTokens], [200, undefined, 1]);
  for (const time of [300, 400, 500]) say(answer, time);
  assert.is(answer.tokensPerSecond, 10);
  answer.take({ type: 'usage', usage: { promptTokens: 5, cachedTokens: 0, completionTokens: 7 } }, 500);
  assert.equal([answer.numTokens, answer.tokensPerSecond], [7, 20], 'as the server counts them');
});

test('a restart noticed during the silence marks the token after it', () => {
  const answer = answerWith(100, 120);
  answer.noteRunner(1, false);
  say(answer, 820);
  say(answer, 840);
  assert.equal(pausesOf(answer), [['820 ', 700]]);
  assert.is(answer.numRestarts, 1);
});

test('a restart noticed on new text marks the longest silence since the last look', () => {
  const answer = answerWith(100, 120, 920);
  answer.noteRunner(0, false);
  for (const time of [940, 1540, 1560]) say(answer, time);
  assert.equal(pausesOf(answer), [], 'a silence alone is no restart');
  answer.noteRunner(1, false);
  say(answer, 1580);
  assert.equal(pausesOf(answer), [['1540 ', 600]]);
  say(answer, 1600);
  answer.noteRunner(0, false);
  say(answer, 1620);
  assert.equal(pausesOf(answer), [['1540 ', 600]], 'one restart, one mark');
});

test('a restart noticed at the crash marks the next silence, however short', () => {
  const answer = answerWith(100, 120);
  answer.noteRunner(1, true);
  say(answer, 125);
  say(answer, 165);
  answer.noteRunner(0, true);
  say(answer, 170);
  assert.equal(pausesOf(answer), [], 'it may not be over');
  answer.noteRunner(0, false);
  say(answer, 175);
  assert.equal(pausesOf(answer), [['165 ', 40]]);
});

test('an answer that ends before the runner is seen to be back is marked too', () => {
  const answer = answerWith(100, 120);
  answer.noteRunner(1, true);
  say(answer, 300);
  answer.end('done');
  assert.equal(pausesOf(answer), [['300 ', 180]]);
});

test('a restart before the first token marks nothing', () => {
  const answer = answerWith();
  answer.noteRunner(1, false);
  for (const time of [900, 920]) say(answer, time);
  assert.equal(pausesOf(answer), []);
  const late = answerWith();
  say(late, 900);
  late.noteRunner(1, false);
  for (const time of [920, 940]) say(late, time);
  assert.equal(pausesOf(late), [], 'not when it is heard of later either');
});

test('a long answer is kept in parts, of which only the last changes', () => {
  const answer = answerWith(...Array.from({ length: 200 }, (_, index) => index));
  assert.equal(
    answer.chunks.map(({ length }) => length),
    [64, 64, 64, 8],
  );
  const before = [...answer.chunks];
  say(answer, 200);
  assert.equal(
    answer.chunks.map((chunk, index) => chunk === before[index]),
    [true, true, true, false],
  );
  assert.is(answer.text, Array.from({ length: 201 }, (_, index) => `${index} `).join(''));
});

test('thinking comes before the text, counts as tokens and is not text', () => {
  const delta = (value: object): ChatEvent[] => [...eventsOf({ choices: [{ delta: value }] })];
  assert.equal(delta({ reasoning_content: 'Hm' }), [{ type: 'thought', text: 'Hm' }]);
  assert.equal(delta({ reasoning_content: '', content: '' }), []);
  const both = delta({ content: 'Yes', reasoning_content: 'm.' });
  assert.equal(
    both.map(({ type }) => type),
    ['thought', 'text'],
  );
  const answer = new Answer('model', 0);
  assert.not(answer.isThinking);
  for (const event of delta({ reasoning_content: 'Hm' })) answer.take(event, 200);
  assert.equal([answer.thought, answer.text, answer.state], ['Hm', '', 'streaming']);
  assert.ok(answer.isThinking);
  for (const event of both) answer.take(event, 300);
  assert.equal([answer.thought, answer.text, answer.isThinking], ['Hmm.', 'Yes', false]);
  assert.equal([answer.timeToFirstTokenMs, answer.numTokens, answer.tokensPerSecond], [200, 3, 20]);
  const cut = new Answer('model', 0);
  cut.take({ type: 'thought', text: 'Hm' }, 100);
  cut.end('stopped');
  assert.not(cut.isThinking, 'nothing comes any more');
});

test('a restart while the model thinks marks nothing in the text', () => {
  const answer = new Answer('model', 0);
  for (const time of [100, 120]) answer.take({ type: 'thought', text: 'hm ' }, time);
  answer.noteRunner(1, false);
  answer.take({ type: 'thought', text: 'hm ' }, 920);
  for (const time of [940, 960]) say(answer, time);
  assert.equal([pausesOf(answer), answer.numRestarts], [[], 1]);
  answer.noteRunner(0, false);
  answer.noteRunner(1, false);
  say(answer, 1660);
  assert.equal(pausesOf(answer), [['1660 ', 700]], 'one behind it does');
});

test('the end of an answer is shown in words, and errors as the server’s', () => {
  const ending = (choice: object, more: object = {}): string[] =>
    [...eventsOf({ choices: [{ delta: {}, ...choice }], ...more })].map((event) =>
      event.type === 'finish' ? event.ending : event.type,
    );
  assert.equal(ending({ finish_reason: null }), []);
  assert.equal(ending({ finish_reason: 'stop' }), ['']);
  assert.equal(ending({ finish_reason: 'length' }), ['ended at the token limit']);
  assert.equal(ending({ finish_reason: 'length', ended_by: 'time_limit' }), [
    'ended by the time limit of the server',
  ]);
  assert.equal(ending({ finish_reason: 'stop' }, { continued_by: 'x-1' }), [
    'continued by a runner with other numerics (x-1)',
  ]);
  assert.throws(() => [...eventsOf({ error: { message: 'It broke.' } })], /^It broke\.$/);
});

test.run();
