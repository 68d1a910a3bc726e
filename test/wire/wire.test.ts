import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import * as assert from 'uvu/assert';
import { routeGroups } from '../../gateway/app.ts';
import { closingSuite } from '../fixtures/closing-suite.ts';
import { Random } from '../fixtures/random.ts';
import { EXAMPLES_PAGE, examplesPage } from './examples.ts';
import { mismatchOf, type Played, parseWireFile, pathsOf, wireText } from './wire-file.ts';
import { World } from './world.ts';

/**
 * The bytes of every route's answers, as text files in `cases`. RUNNEL_TEST_RECORD=1 writes the files anew, and then
 * `git diff` shows what clients would notice.
 */

const test = closingSuite('wire');

const CASES = fileURLToPath(new URL('cases/', import.meta.url));
const isRecording = process.env.RUNNEL_TEST_RECORD === '1';

const files = readdirSync(CASES).sort();
/** What each file's exchanges did in this run. */
const playedOf = new Map<string, readonly Played[]>();

async function play(text: string): Promise<readonly Played[]> {
  const file = parseWireFile(text);
  const world = new World();
  await world.start(file.settings);
  try {
    const played: Played[] = [];
    for (const exchange of file.exchanges) played.push(await world.play(exchange));
    return played;
  } finally {
    await world.stop();
  }
}

for (const name of files) {
  test(`${name} is answered as recorded`, async () => {
    const recorded = readFileSync(CASES + name, 'utf8');
    const played = await play(recorded);
    playedOf.set(name, played);
    const actual = wireText(parseWireFile(recorded), played);
    if (isRecording) writeFileSync(CASES + name, actual);
    else assert.is(mismatchOf(`test/wire/cases/${name}`, recorded, actual), undefined);
  });
}

test('each documented route has a case', () => {
  const asked = files.flatMap((name) => parseWireFile(readFileSync(CASES + name, 'utf8')).exchanges);
  for (const { method, path } of routeGroups.flatMap(({ operations }) => operations)) {
    const form = pathsOf(path);
    const isAsked = asked.some((each) => each.method.toLowerCase() === method && form.test(each.path));
    assert.ok(isAsked, `${method} ${path} has no case`);
  }
});

test('docs/examples.md has an example of each documented route, as it is recorded', () => {
  const page = examplesPage((name) => readFileSync(CASES + name, 'utf8'));
  if (isRecording) writeFileSync(EXAMPLES_PAGE, page);
  assert.is(readFileSync(EXAMPLES_PAGE, 'utf8'), page, 'RUNNEL_TEST_RECORD=1 writes it anew');
  for (const { method, path } of routeGroups.flatMap(({ operations }) => operations))
    assert.ok(page.includes(`\n## ${method.toUpperCase()} ${path}\n`), `${method} ${path} has no example`);
});

test('a changed byte in any recorded answer is found, by file and line', () => {
  const random = new Random(process.env.RUNNEL_TEST_SEED ? Number(process.env.RUNNEL_TEST_SEED) : undefined);
  console.log(`RUNNEL_TEST_SEED=${random.seed}`);
  for (const [name, played] of playedOf) {
    const text = wireText(parseWireFile(readFileSync(CASES + name, 'utf8')), played);
    for (const exchange of parseWireFile(text).exchanges) {
      const from = text.indexOf('\n--- ', text.indexOf(`=== ${exchange.name}\n`)) + '\n--- '.length;
      const end = text.indexOf('\n\n=== ', from);
      const at = from + random.below((end < 0 ? text.length - 1 : end) - from);
      const changed = `${text.slice(0, at)}${text[at] === 'x' ? 'y' : 'x'}${text.slice(at + 1)}`;
      const told = mismatchOf(name, changed, wireText(parseWireFile(changed), played)) ?? '';
      const line = text.slice(0, at).split('\n').length;
      assert.ok(told.startsWith(`${name}:${line}\n`), `byte ${at} of ${name}: ${told}`);
    }
  }
});

test.run();
