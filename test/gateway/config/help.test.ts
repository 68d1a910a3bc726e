import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { flagsHelp, HELP_COLUMNS, prose } from '../../../gateway/config/help.ts';

const test = suite('layout of help');

test('flags are in their groups, in the order of the groups, with descriptions in one column', () => {
  assert.is(
    flagsHelp([
      { group: 'General', flag: '--help', help: 'Print this help' },
      { group: 'Model', flag: '--model MODEL', help: 'GGUF file' },
      { group: 'General', flag: '--config FILE', help: 'File of settings' },
    ]),
    [
      'Model:',
      '  --model MODEL                 GGUF file',
      '',
      'General:',
      '  --help                        Print this help',
      '  --config FILE                 File of settings',
    ].join('\n'),
  );
});

test('a long description continues below itself, and one of a long flag begins below it', () => {
  const words = Array.from({ length: 30 }, (_, index) => `word${index}`).join(' ');
  const long = `--${'n'.repeat(40)} N`;
  const lines = flagsHelp([
    { group: 'Model', flag: '--short N', help: words },
    { group: 'Model', flag: long, help: words },
  ]).split('\n');
  const [, first = '', ...rest] = lines;
  assert.ok(first.startsWith('  --short N'));
  const ofLong = rest.indexOf(`  ${long}`);
  assert.ok(ofLong > 0);
  for (const [index, line] of rest.entries()) {
    assert.ok(line.length <= HELP_COLUMNS, line);
    if (index !== ofLong) assert.match(line, /^ {32}word/);
  }
  const said = rest.slice(ofLong + 1).map((line) => line.trim());
  assert.is(said.join(' '), words);
});

test('a flag that leaves two spaces has its description beside it, and one more character moves it below', () => {
  const rowsOf = (length: number) =>
    flagsHelp([{ group: 'Model', flag: 'x'.repeat(length), help: 'Text' }]).split('\n').length - 1;
  assert.is(rowsOf(28), 1);
  assert.is(rowsOf(29), 2);
});

test('prose fills its lines, and keeps a word that is longer than a line', () => {
  const url = `http://${'x'.repeat(HELP_COLUMNS)}`;
  const lines = prose(`a ${'b'.repeat(HELP_COLUMNS - 2)} c ${url} d`).split('\n');
  assert.equal(lines, [`a ${'b'.repeat(HELP_COLUMNS - 2)}`, 'c', url, 'd']);
});

test.run();
