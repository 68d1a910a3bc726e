import { existsSync, readFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { alone, shortfalls, sideBySide } from './gates.ts';

const test = suite('gates');
const gates = [...sideBySide('build/sanitize'), ...alone];

test('a gate that ran less than it should is told what is missing, however many lines it counts in', () => {
  const output =
    'seed 7\nload: 60 rounds, 0 lost\nstep: 40 rounds, 0 lost\n12 clients left with the first token\n';
  assert.equal(shortfalls(output, { rounds: 100, 'clients left': 12 }), []);
  assert.equal(shortfalls(output, { rounds: 101, 'clients left': 13, kills: 1 }), [
    'The gate counted 100 rounds; it must be 101 at least.',
    'The gate counted 12 clients left; it must be 13 at least.',
    'The gate counted 0 kills; it must be 1 at least.',
  ]);
});

test('each gate counts something, and each test file obeys the variables it is given', () => {
  for (const { name, command, env, counts } of gates) {
    assert.ok(
      Object.values(counts).some((count) => count > 0),
      name,
    );
    if (command !== undefined) continue;
    assert.ok(existsSync(name), name);
    const source = readFileSync(name, 'utf8');
    for (const variable of Object.keys(env))
      assert.ok(source.includes(variable), `${name} reads ${variable}`);
  }
});

test('no gate is there twice', () => {
  const names = gates.map(({ name }) => name);
  assert.is(new Set(names).size, names.length);
});

test.run();
