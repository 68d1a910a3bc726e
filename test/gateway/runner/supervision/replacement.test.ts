import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { RollingReplacement } from '../../../../gateway/runner/supervision/replacement.ts';
import type { RunnerSpec } from '../../../../gateway/runner/supervision/runner-spec.ts';

const test = suite('rolling replacement');

const spec = (modelPath: string): RunnerSpec => ({
  command: () => ({ file: 'runner', args: [] }),
  modelPath,
  modelIdentity: () => ({ sizeBytes: 1, sha256: '' }) as never,
});

/** Two places. Records what each is asked for; `answer` gives what it answers. */
function twoPlaces(answer: (place: number, model: string) => string | undefined) {
  const asked: string[] = [];
  const places = [0, 1].map((place) => ({
    replace: async ({ modelPath = '' }: Partial<RunnerSpec>) => {
      asked.push(`${place} begins ${modelPath}`);
      await Promise.resolve();
      asked.push(`${place} ends ${modelPath}`);
      return answer(place, modelPath);
    },
  }));
  return { asked, rolling: new RollingReplacement(places, spec('a')) };
}

test('the same model: one runner after the other', async () => {
  const { asked, rolling } = twoPlaces(() => undefined);
  assert.is(await rolling.replace({}), undefined);
  assert.equal(asked, ['0 begins a', '0 ends a', '1 begins a', '1 ends a']);
});

test('another model: all runners at once', async () => {
  const { asked, rolling } = twoPlaces(() => undefined);
  assert.is(await rolling.replace({ modelPath: 'b' }), undefined);
  assert.equal(asked, ['0 begins b', '1 begins b', '0 ends b', '1 ends b']);
});

test('a replacement that one place refuses is rolled back, with the reason', async () => {
  const { asked, rolling } = twoPlaces((place, model) =>
    place === 1 && model === 'b' ? 'No memory.' : undefined,
  );
  assert.is(await rolling.replace({ modelPath: 'b' }), 'No memory.');
  assert.equal(asked.slice(4), ['0 begins a', '0 ends a']);
});

test('of two at once the last one counts for both', async () => {
  const { asked, rolling } = twoPlaces((_, model) => (model === 'b' ? 'Given up.' : undefined));
  const both = [rolling.replace({ modelPath: 'b' }), rolling.replace({ modelPath: 'c' })];
  assert.equal(await Promise.all(both), [undefined, undefined]);
  assert.is(asked.filter((each) => each.endsWith(' a')).length, 0, 'nobody goes back');
});

test('once it is stopping, no other runner is replaced', async () => {
  const { asked, rolling } = twoPlaces(() => {
    rolling.stop();
    return undefined;
  });
  assert.is(await rolling.replace({}), undefined);
  assert.equal(asked, ['0 begins a', '0 ends a']);
});

test.run();
