import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { testApp } from '../fixtures/app.ts';

/** The dashboard asks for what /metrics has. */

const test = suite('grafana');

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
  readonly gridPos: { readonly x: number; readonly w: number };
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly definition?: string }[] };
}

const dashboard = JSON.parse(readFileSync(`${ROOT}deploy/grafana/runnel.json`, 'utf8')) as Dashboard;
const panels = dashboard.panels.filter(({ type }) => type !== 'row');
const targets = panels.flatMap(({ title, targets = [] }) => targets.map((target) => ({ title, ...target })));

/** A histogram's name, of what its samples are called. */
const ofHistogram = (name: string): string => name.replace(/_(bucket|sum|count)$/, '');

/** Each metric's labels, as docs/api.md has them; that its names are those of /metrics, docs.test.ts checks. */
function documentedLabels(): Map<string, string[]> {
  const page = readFileSync(`${ROOT}docs/api.md`, 'utf8');
  const names = page.matchAll(/`((?:runnel|worker)_[a-z0-9_]+)(?:\{([a-z,]+)\})?`/g);
  return new Map([...names].map(([, name = '', labels]) => [name, labels?.split(',') ?? []]));
}

test('every metric that the dashboard asks for is one of /metrics', async () => {
  const text = await (await testApp().get('/metrics')).text();
  const types = new Map(
    [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name = '', type]) => [name, type]),
  );
  const asked = [
    ...targets.map(({ expr }) => expr),
    ...dashboard.templating.list.map((v) => v.definition ?? ''),
  ];
  let numNames = 0;
  for (const expr of asked) {
    for (const [name] of expr.matchAll(/\b(?:runnel|worker)_[a-z0-9_]+/g)) {
      const isHistogram = types.get(ofHistogram(name)) === 'histogram';
      assert.ok(isHistogram ? ofHistogram(name) !== name : types.has(name), `${name} of ${expr}`);
      // What only grows is shown by its rate, and what may fall is not.
      const isCounter = isHistogram || types.get(name) === 'counter';
      if (!expr.startsWith('label_values')) assert.is(/\b(rate|increase)\(/.test(expr), isCounter, expr);
      numNames += 1;
    }
  }
  assert.ok(numNames > 30);
});

test('its labels are those of the metrics, and each legend’s are kept by its query', () => {
  const labels = documentedLabels();
  for (const { expr, legendFormat, title } of targets) {
    const known = new Set(['le', 'model']);
    for (const [name] of expr.matchAll(/\b(?:runnel|worker)_[a-z0-9_]+/g))
      for (const label of labels.get(name) ?? labels.get(ofHistogram(name)) ?? []) known.add(label);
    const kept = [...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(', '));
    const chosen = [...expr.matchAll(/([a-z]+)=~?"/g)].map(([, label = '']) => label);
    for (const label of [...kept, ...chosen]) assert.ok(known.has(label), `${title}: ${label}`);
    for (const [, label = ''] of legendFormat.matchAll(/\{\{([a-z]+)\}\}/g))
      assert.ok(kept.includes(label), `${title}: ${label} of the legend`);
    assert.is(expr.split('(').length, expr.split(')').length, expr);
  }
});

test('panels have unique ids and stay within the page', () => {
  assert.is(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length);
  for (const { title, gridPos } of dashboard.panels) assert.ok(gridPos.x + gridPos.w <= 24, title);
});

test.run();
