import { readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { BEGIN, END, withWritten } from './document.ts';

const test = suite('bench document');

test('only the text between the marks is replaced', () => {
  const before = `# Performance\n\n${BEGIN}\n\nold\n\n${END}\n\nMore.\n`;
  const after = withWritten(before, '| new |');
  assert.is(after, `# Performance\n\n${BEGIN}\n\n| new |\n\n${END}\n\nMore.\n`);
  assert.is(withWritten(after, '| new |'), after);
});

test('marks that are missing, twice or the wrong way round are an error', () => {
  for (const document of ['none', BEGIN, END, `${END}${BEGIN}`, `${BEGIN}${END}${BEGIN}${END}`])
    assert.throws(() => withWritten(document, 'text'), 'the document must have once each');
});

test('docs/performance.md has them', () => {
  const document = readFileSync(new URL('../../../docs/performance.md', import.meta.url), 'utf8');
  assert.match(withWritten(document, 'figures'), `${BEGIN}\n\nfigures\n\n${END}`);
});

test.run();
