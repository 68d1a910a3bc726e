import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Gateway } from '../fixtures/gateway.ts';
import { Random } from '../fixtures/random.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

/** A model that makes vectors of texts and writes none, compared with transformers (test/golden/make.py). */

const test = suite('encoder');

const goldenFile = (name: string): string =>
  fileURLToPath(new URL(`../golden/models/${name}`, import.meta.url));
const golden: { readonly prompt: readonly number[]; readonly vectors: { readonly mean: readonly number[] } } =
  JSON.parse(readFileSync(goldenFile('bert.json'), 'utf8'));
const VOCAB_SIZE = 272;
const MAX_DIFFERENCE = 1e-4;

const gateway = await Gateway.during(test, goldenFile('bert-f32.gguf'), [
  ...['--kv-cache-type', 'f32', '--served-model-name', 'tiny', '--backend', 'cpu'],
]);

async function vectorsOf(
  input: readonly (string | readonly number[])[],
  more: object = {},
  asked = gateway,
): Promise<number[][]> {
  const response = await asked.post('/v1/embeddings', { model: 'tiny', input, ...more });
  const text = await response.text();
  assert.is(response.status, 200, text);
  return (JSON.parse(text) as { data: { embedding: number[] }[] }).data.map(({ embedding }) => embedding);
}

async function isOfTransformers(asked: Gateway): Promise<void> {
  const { mean } = golden.vectors;
  const length = Math.hypot(...mean);
  const [vector = []] = await vectorsOf([golden.prompt], {}, asked);
  const differences = vector.map((value, index) => Math.abs(value - (mean[index] ?? Number.NaN) / length));
  assert.is(differences.length, mean.length);
  assert.ok(Math.max(...differences) < MAX_DIFFERENCE);
}

test('its vectors are those of transformers, by the pooling of its file', () => isOfTransformers(gateway));

interface WordPieceGolden {
  readonly texts: readonly string[];
  readonly vocabularies: {
    readonly uncased: {
      readonly file: { readonly model: { readonly vocab: Readonly<Record<string, number>> } };
      /** By Hugging Face's tokenizers. */
      readonly plain: readonly (readonly number[])[];
    };
  };
}

/** The ids of [UNK], [CLS] and [SEP]. */
const [UNKNOWN, CLS, SEP] = [1, 2, 3] as const;

test('words of a folder come to the vectors of transformers, with [CLS] and [SEP], also where a text is cut', async () => {
  const words: WordPieceGolden = JSON.parse(
    readFileSync(new URL('../golden/wordpiece.json', import.meta.url), 'utf8'),
  );
  const { file, plain } = words.vocabularies.uncased;
  // The model has only the first tokens of the vocabulary. Of a text that has no others, they are the longest ones, too.
  const isOfModel = (id: number): boolean => id < VOCAB_SIZE && id !== UNKNOWN;
  const vocab = Object.fromEntries(Object.entries(file.model.vocab).filter(([, id]) => id < VOCAB_SIZE));
  const tokenizer = { ...file, model: { ...file.model, vocab } };
  const folder = temporaryFolder();
  for (const name of ['config.json', 'model.safetensors'])
    folder.write(name, readFileSync(`${goldenFile('bert')}/${name}`));
  folder.write('tokenizer.json', JSON.stringify(tokenizer));
  const ofFolder = await Gateway.startOn(folder.path, [
    ...['--port', '0', '--kv-cache-type', 'f32', '--served-model-name', 'tiny', '--backend', 'cpu'],
  ]);
  try {
    await ofFolder.ready();
    await isOfTransformers(ofFolder);
    const known = words.texts.flatMap((text, index) => {
      const ids = plain[index] ?? [];
      return ids.length >= 3 && ids.length < 100 && ids.every(isOfModel) ? [[text, ids] as const] : [];
    });
    assert.ok(known.length >= 8, `${known.length} texts`);
    const texts = known.map(([text]) => text);
    const around = (ids: readonly number[]): number[] => [CLS, ...ids, SEP];
    const ofIds = await vectorsOf(
      known.map(([, ids]) => around(ids)),
      {},
      ofFolder,
    );
    assert.equal(await vectorsOf(texts, {}, ofFolder), ofIds);
    const ofFirst = await vectorsOf(
      known.map(([, ids]) => around(ids.slice(0, 2))),
      {},
      ofFolder,
    );
    assert.equal(await vectorsOf(texts, { truncate_prompt_tokens: 4 }, ofFolder), ofFirst);
  } finally {
    await ofFolder.stop();
  }
});

test('a runner that is killed in the middle shows in no vector, and the next one serves', async () => {
  const random = new Random();
  console.log(`RUNNEL_TEST_SEED=${random.seed}`);
  const input = Array.from({ length: 300 }, () =>
    Array.from({ length: 1 + random.below(512) }, () => random.below(VOCAB_SIZE)),
  );
  const wanted = await vectorsOf(input);
  const restarts = await gateway.restarts();
  const vectors = vectorsOf(input);
  await gateway.healthWhere(({ runner }) => runner.open_requests > 0, 'the texts to be with the runner');
  await gateway.killRunner();
  assert.equal(await vectors, wanted);
  assert.is(await gateway.restarts(), restarts + 1);
});

test('what asks it to write is refused', async () => {
  const response = await gateway.post('/v1/completions', { model: 'tiny', prompt: 'Hello', max_tokens: 1 });
  assert.is(response.status, 400);
  assert.match(
    await response.text(),
    'The model is an encoder, which makes vectors of texts and writes none',
  );
});

test.run();
