import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DEFAULT_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';

/** Ranking by the default model. */

const test = suite('rerank');
const gateway = await Gateway.during(test, DEFAULT_MODEL, ['--served-model-name', 'smollm2']);

const model = 'smollm2';
const query = 'What is the capital of France?';
const NUM_DOCUMENTS = 8;
const documents = Array.from(
  { length: NUM_DOCUMENTS },
  (_, index) => `Document ${index}. ${'word '.repeat(8 * index)}`,
);

interface Scores {
  readonly data: readonly { readonly score: number }[];
}

async function answerOf<Answer>(path: string, body: object): Promise<Answer> {
  const response = await gateway.post(path, { model, ...body });
  const text = await response.text();
  assert.is(response.status, 200, text);
  return JSON.parse(text) as Answer;
}

async function scoresOf(): Promise<number[]> {
  const { data } = await answerOf<Scores>('/v1/score', { text_1: query, text_2: documents });
  return data.map(({ score }) => score);
}

interface Completion {
  readonly choices: readonly [{ readonly logprobs: { readonly token_logprobs: readonly number[] } }];
}

async function idsOf(content: string): Promise<number[]> {
  const { tokens } = await answerOf<{ tokens: number[] }>('/tokenize', { content, parse_special: true });
  return tokens;
}

/** The log-probability of the last token, as the model gives it in a prompt. */
async function lastLogprobOf(prompt: readonly number[]): Promise<number> {
  const asked = { prompt, echo: true, logprobs: 0, max_tokens: 0 };
  const { choices } = await answerOf<Completion>('/v1/completions', asked);
  return choices[0].logprobs.token_logprobs.at(-1) ?? 0;
}

test('a score is the softmax of the log-probabilities of "yes" and "no" behind the prompt', async () => {
  const [document = ''] = documents;
  const { data } = await answerOf<Scores>('/v1/score', { text_1: query, text_2: document });
  const messages = [
    {
      role: 'system',
      content:
        'Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the answer can only be "yes" or "no".',
    },
    {
      role: 'user',
      content: `<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n<Query>: ${query}\n<Document>: ${document}`,
    },
  ];
  const { prompt } = await answerOf<{ prompt: string }>('/apply-template', { messages });
  const ids = await idsOf(prompt);
  const [yes = 0, no = 0] = await Promise.all(
    ['yes', 'no'].map(async (answer) => lastLogprobOf([...ids, ...(await idsOf(answer))])),
  );
  assert.is(data[0]?.score, 1 / (1 + Math.exp(no - yes)));
});

test('a ranking is that of the scores, and a kill of the runner changes none', async () => {
  const scores = await scoresOf();
  assert.is(scores.length, NUM_DOCUMENTS);
  const restarts = await gateway.restarts();
  const asked = scoresOf();
  await gateway.healthWhere(({ runner }) => runner.open_requests > 0, 'an open request');
  await gateway.killRunner();
  assert.equal(await asked, scores);
  assert.is(await gateway.restarts(), restarts + 1);
  const { results } = await answerOf<{ results: { index: number; relevance_score: number }[] }>('/rerank', {
    query,
    documents,
  });
  const order = scores.map((score, index) => [index, score] as const).sort(([, a], [, b]) => b - a);
  assert.equal(
    results.map(({ index, relevance_score }) => [index, relevance_score]),
    order,
  );
});

test.run();
