import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { namesOfCases, namesOfSuites, promises } from './promises.ts';

/** The names of tests are the index of what is promised, so each is a sentence that stands once. */

const test = suite('promises');

const index = promises();

test('each file of tests has names in the index, none of them twice', () => {
  assert.ok(index.length > 400, `${index.length} files`);
  const files = index.map(({ file }) => file);
  for (const { file, names } of index) {
    const hasCases = files.includes(file.replace(/\.test\.ts$/, '.cases.txt'));
    assert.ok(names.length > 0 || hasCases, `${file} has no name of a test`);
    const again = names.filter((name, at) => names.indexOf(name) < at);
    assert.equal(again, [], `${file} has names that stand twice`);
  }
});

test('the name of a test says in words what it tests', () => {
  const ofCode = index.filter(({ file }) => !file.endsWith('.txt'));
  const short = ofCode.flatMap(({ file, names }) =>
    names.filter((name) => name.split(/\s+/).length < 3).map((name) => `${file}: ${name}`),
  );
  assert.equal(short, []);
});

test('a name in a comment, in another call or as a part of another name is no test', () => {
  const suiteSource = [
    "const test = suite('things');",
    "test('one', () => {",
    "  // test('two', …)",
    "  assert.is(1, 1, 'three');",
    '});',
    'test(',
    "  'four’s \\'name\\'',",
    'test.before(() => {});',
    "other('five', () => {});",
    'const sometimes = isLinux ? test : test.skip;',
    "sometimes('six', () => {});",
  ].join('\n');
  assert.equal(namesOfSuites(suiteSource), ['one', "four’s 'name'", 'six']);
  const caseSource = [
    'TEST_CASE("a: b, "',
    '          "c \\"d\\"") {',
    '// TEST_CASE("e")',
    'CHECK("f");',
  ].join('\n');
  assert.equal(namesOfCases(caseSource), ['a: b, c "d"']);
});

test.run();
