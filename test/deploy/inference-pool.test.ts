import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parse, parseAllDocuments } from 'yaml';
import { statsOf } from '../../gateway/runner/protocol/scheduler-stats.ts';
import { loopbackOnly } from '../../gateway/server/guard/guard.ts';
import { Metrics } from '../../gateway/telemetry/metrics.ts';
import { testApp } from '../fixtures/app.ts';
import { keysOf } from '../fixtures/keys.ts';
import { ScriptedRunner } from '../fixtures/scripted-runner.ts';

/** The manifest of the pool fits the gateways, and its endpoint picker finds their load. Nothing here starts a picker. */

const test = suite('inference pool');

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (path: string): string => readFileSync(ROOT + path, 'utf8');

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data: Readonly<Record<string, string>>;
  readonly spec: Readonly<Record<string, unknown>>;
}

interface Plugin {
  readonly type: string;
  readonly parameters?: {
    readonly path?: string;
    readonly defaultEngine?: string;
    readonly engineConfigs?: readonly Readonly<Record<string, string>>[];
  };
}

interface PickerConfig {
  readonly plugins: readonly Plugin[];
  readonly schedulingProfiles: readonly { readonly plugins: readonly { readonly pluginRef: string }[] }[];
}

const manifestsOf = (name: string): Manifest[] =>
  parseAllDocuments(read(`deploy/kubernetes/${name}.yaml`), { merge: true }).map(
    (document) => document.toJS() as Manifest,
  );
const pool = manifestsOf('inference-pool');
const gateways = manifestsOf('runnel');
const find = (manifests: readonly Manifest[], kind: string): Manifest =>
  manifests.find((each) => each.kind === kind) as Manifest;

const config = parse(find(pool, 'ConfigMap').data['picker.yaml'] as string) as PickerConfig;
const parametersOf = (type: string) => config.plugins.find((plugin) => plugin.type === type)?.parameters;

/** What the protocol calls the metric of each parameter of an engine. */
const schema = JSON.parse(read('test/deploy/inference-pool.schemas.json'))[
  'endpointpickerconfig-llm-d-v1alpha1'
] as { $defs: { engine: { properties: Record<string, { title?: string }> } } };

/** The value that a picker takes for a specification: that of the first sample of this name with these labels. */
function sampleOf(spec: string, text: string): number | undefined {
  const [, name, labels = ''] = /^(\w+)(?:\{(.*)\})?$/.exec(spec) ?? [];
  const line = text
    .split('\n')
    .find((each) => each.startsWith(`${name}{`) && labels.split(',').every((label) => each.includes(label)));
  return line === undefined ? undefined : Number(line.split(' ').at(-1));
}

test('the picker’s configuration is one by the fields that are known of it, and scores by plugins that it has', () => {
  const isValid = new Ajv2020({ strict: false }).compile(schema);
  assert.ok(isValid(config), JSON.stringify(isValid.errors));
  for (const { pluginRef } of config.schedulingProfiles.flatMap(({ plugins }) => plugins))
    assert.ok(parametersOf(pluginRef) ?? config.plugins.some(({ type }) => type === pluginRef), pluginRef);
});

test('the picker reads each metric of the model server protocol as a gauge, from a path that needs no key', async () => {
  const runner = new ScriptedRunner();
  const scheduled: Record<string, number> = { numWaiting: 3, numRunning: 2 };
  runner.current = { ...runner.current, numFreeBlocks: 16, stats: statsOf((name) => scheduled[name] ?? 0) };
  const metrics = new Metrics(Date.now);
  metrics.add('m', () => runner.status());
  const { get } = testApp({ metrics, guard: { ...loopbackOnly, apiKeys: keysOf(['key']) } });
  const path = parametersOf('metrics-data-source')?.path as string;
  const response = await get(path);
  assert.is(response.status, 200);
  const text = await response.text();
  const { engineConfigs = [], defaultEngine } = parametersOf('core-metrics-extractor') ?? {};
  const [engine = {}] = engineConfigs;
  assert.is(engine.name, defaultEngine);
  const found = new Map<string | undefined, number | undefined>();
  for (const [parameter, spec] of Object.entries(engine).filter(([name]) => name !== 'name')) {
    found.set(schema.$defs.engine.properties[parameter]?.title, sampleOf(spec, text));
    assert.match(text, `# TYPE ${spec} gauge\n`);
  }
  assert.equal(Object.fromEntries(found), {
    TotalQueuedRequests: 3,
    TotalRunningRequests: 2,
    KVCacheUtilization: 0.75,
    BlockSize: 16,
    NumGPUBlocks: 64,
  });
});

test('the pool selects the pods of the gateways at their port, and the route and the picker name the pool', () => {
  const name = find(pool, 'InferencePool').metadata.name;
  const { selector, targetPorts, endpointPickerRef } = find(pool, 'InferencePool').spec as {
    readonly selector: object;
    readonly targetPorts: readonly [{ readonly number: number }];
    readonly endpointPickerRef: { readonly name: string; readonly port: { readonly number: number } };
  };
  assert.equal(selector, find(gateways, 'StatefulSet').spec.selector);
  const { port } = JSON.parse(find(gateways, 'ConfigMap').data['runnel.json'] as string) as { port: number };
  assert.is(targetPorts[0].number, port);
  const service = find(pool, 'Service');
  assert.is(endpointPickerRef.name, service.metadata.name);
  assert.match(JSON.stringify(service.spec.ports), `"port":${endpointPickerRef.port.number}`);
  assert.match(JSON.stringify(find(pool, 'HTTPRoute').spec), `"kind":"InferencePool","name":"${name}"`);
  const deployment = find(pool, 'Deployment').spec as { selector: { matchLabels: object }; template: object };
  assert.equal(service.spec.selector, deployment.selector.matchLabels);
  const picker = JSON.stringify(deployment.template);
  for (const argument of [`--pool-name=${name}`, `--grpc-port=${endpointPickerRef.port.number}`])
    assert.match(picker, argument);
  assert.match(picker, `"configMap":{"name":"${find(pool, 'ConfigMap').metadata.name}"}`);
});

test.run();
