import { existsSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { HELP_COLUMNS } from '../../../gateway/config/help.ts';
import { main } from '../../../gateway/main.ts';

const test = suite('help');

async function helpOf(...args: string[]): Promise<string> {
  const { log } = console;
  let printed = '';
  console.log = (text: string) => {
    printed += `${text}\n`;
  };
  try {
    assert.is(await main([...args, '--help']), 0);
  } finally {
    console.log = log;
  }
  return printed;
}

/** To update one: npx runnel COMMAND --help > test/golden/help/COMMAND.txt */
function golden(name: string): string {
  const file = new URL(`../../golden/help/${name}.txt`, import.meta.url);
  assert.ok(existsSync(file), `${name} has no golden help`);
  return readFileSync(file, 'utf8');
}

test('the help of every command is as it was, and no command is without', async () => {
  const usage = await helpOf();
  assert.is(usage, golden('runnel'));
  const names = [...usage.matchAll(/^ {2}runnel (\S+)/gm)].map(([, name]) => name as string);
  assert.ok(names.length >= 5);
  for (const name of names) {
    const help = await helpOf(name);
    assert.is(help, golden(name), name);
    for (const line of help.split('\n')) assert.ok(line.length <= HELP_COLUMNS, `${name}: ${line}`);
    assert.match(help, new RegExp(`\\nExamples:\\n(  .+\\n)*  .*runnel ${name}\\b`), name);
  }
});

test('the help does not depend on this machine', async () => {
  for (const name of ['serve', 'generate']) {
    assert.not.match(await helpOf(name), process.cwd());
  }
});

test.run();
