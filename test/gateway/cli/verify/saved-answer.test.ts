import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { objectsIn, receiptsIn, savedAnswer } from '../../../../gateway/cli/verify/saved-answer.ts';

const test = suite('saved answer');

const answerOf = (text: string) => savedAnswer(objectsIn(text));

test('whole answers of every API are recognised, with what their choices say', () => {
  const cases: [object, string, object[]][] = [
    [
      {
        object: 'chat.completion',
        choices: [
          { index: 0, message: { content: 'a', reasoning_content: 't' } },
          { index: 1, message: { content: null } },
        ],
      },
      '/v1/chat/completions',
      [
        { thought: 't', text: 'a' },
        { thought: '', text: '' },
      ],
    ],
    [
      { object: 'text_completion', choices: [{ index: 0, text: 'a' }] },
      '/v1/completions',
      [{ thought: '', text: 'a' }],
    ],
    [
      {
        object: 'response',
        output: [
          { type: 'reasoning', content: [{ type: 'reasoning_text', text: 't' }] },
          { type: 'message', content: [{ type: 'output_text', text: 'a' }] },
        ],
      },
      '/v1/responses',
      [{ thought: 't', text: 'a' }],
    ],
    [
      {
        type: 'message',
        content: [
          { type: 'thinking', thinking: 't' },
          { type: 'text', text: 'a' },
        ],
      },
      '/v1/messages',
      [{ thought: 't', text: 'a' }],
    ],
    [{ done: true, message: { content: 'a', thinking: 't' } }, '/api/chat', [{ thought: 't', text: 'a' }]],
    [{ done: true, response: 'a' }, '/api/generate', [{ thought: '', text: 'a' }]],
  ];
  for (const [answer, route, choices] of cases)
    assert.equal(answerOf(JSON.stringify(answer)), { route, choices });
});

test('events and lines are put together', () => {
  const chunk = (index: number, content: string) =>
    `data: ${JSON.stringify({ object: 'chat.completion.chunk', choices: [{ index, delta: { content } }] })}\n\n`;
  assert.equal(answerOf(`${chunk(0, 'a')}${chunk(1, 'x')}${chunk(0, 'b')}data: [DONE]\n\n`)?.choices, [
    { thought: '', text: 'ab' },
    { thought: '', text: 'x' },
  ]);
  const events = 'event: token\ndata: {"t":"a","i":0}\n\nevent: token\ndata: {"t":"b","i":2}\n\n';
  assert.equal(answerOf(`${events}event: end\ndata: {"tokens_out":3}\n\n`), {
    route: '/execute',
    choices: [{ thought: '', text: 'ab' }],
  });
  const lines = '{"done":false,"response":"a"}\n{"done":true,"response":"b"}\n';
  assert.equal(answerOf(lines)?.choices, [{ thought: '', text: 'ab' }]);
});

test('what is no answer is none, and what is no JSON is refused', () => {
  assert.is(answerOf('{"error":{"message":"no"}}'), undefined);
  assert.throws(() => objectsIn('plain'), SyntaxError);
});

const receipt = (number: number) => ({ weights: 'w', numerics: 'n', number });

test('receipts are found wherever they are, in their order', () => {
  const answer = { choices: [{ receipt: receipt(1) }, { receipt: receipt(2) }] };
  assert.equal(
    receiptsIn([answer, { response: { receipt: receipt(3) } }]).map((found) => found.receipt),
    [receipt(1), receipt(2), receipt(3)],
  );
  assert.equal(receiptsIn(receipt(4)), [{ receipt: receipt(4), choice: 0 }]);
  assert.equal(receiptsIn({ text: 'none' }), []);
});

test('receipts of a stream say of which choice they are, in whatever order the choices ended', () => {
  const ends = [2, 0, 1].map((index) => ({ choices: [{ index, delta: {}, receipt: receipt(index) }] }));
  assert.equal(
    receiptsIn(objectsIn(ends.map((end) => `data: ${JSON.stringify(end)}\n\n`).join(''))),
    [2, 0, 1].map((choice) => ({ receipt: receipt(choice), choice })),
  );
});

test.run();
