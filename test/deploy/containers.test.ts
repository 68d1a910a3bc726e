import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parse, parseAllDocuments } from 'yaml';
import { instructionsOf } from '../../deploy/containerfile.ts';
import { pull as pullCommand } from '../../gateway/cli/pull.ts';
import { type Config, readConfig } from '../../gateway/config/config.ts';
import { parseHubName } from '../../gateway/models/hub/hub-file.ts';
import { testApp } from '../fixtures/app.ts';
import { codeBlocksOf } from '../fixtures/guides.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';

/** What is written of containers agrees with the program: flags, paths, ports, users, times. Nothing here starts a container. */

const test = suite('containers');

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SCHEMAS = `${ROOT}build/kubernetes-schemas/`;
const read = (path: string): string => readFileSync(ROOT + path, 'utf8');
/**
 * The fields of kinds that are defined outside Kubernetes, written down by hand from their definitions. They are only
 * those that the manifests might have.
 */
const poolSchemas = JSON.parse(read('test/deploy/inference-pool.schemas.json')) as Record<string, object>;

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}

interface Container {
  readonly args: readonly string[];
  readonly image: string;
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
  readonly lifecycle: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
}

interface Manifest {
  readonly kind: string;
  readonly apiVersion: string;
  readonly metadata: { readonly name: string };
  readonly data: Readonly<Record<string, string>>;
  readonly spec: {
    readonly selector: object;
    readonly serviceName: string;
    readonly ports: readonly { readonly targetPort: string }[];
    readonly template: {
      readonly metadata: { readonly annotations: Readonly<Record<string, string>> };
      readonly spec: {
        readonly terminationGracePeriodSeconds: number;
        readonly shareProcessNamespace: boolean;
        readonly securityContext: { readonly runAsUser: number; readonly fsGroup: number };
        readonly initContainers: readonly Container[];
        readonly containers: readonly [Container];
      };
    };
  };
}

interface Service {
  readonly command: readonly string[];
  readonly build: { readonly dockerfile: string; readonly target: string };
  readonly ports: readonly string[];
  readonly volumes: readonly string[];
  readonly stop_grace_period: string;
  readonly init: boolean;
}

/** Seconds that a gateway has left when all its streams had their time. */
const SPARE_SEC = 10;

const containerfile = read('deploy/Containerfile');
const compose = parse(read('deploy/compose.yaml'), { merge: true }) as {
  services: Readonly<Record<'pull' | 'runnel' | 'runnel-cuda', Service>>;
};
const documents = ['runnel', 'inference-pool'].flatMap((name) =>
  parseAllDocuments(read(`deploy/kubernetes/${name}.yaml`), { merge: true }),
);
const manifests = documents.map((document) => document.toJS() as Manifest);
const manifest = (kind: string): Manifest => manifests.find((each) => each.kind === kind) as Manifest;
const pod = manifest('StatefulSet').spec.template.spec;

/** What is behind an instruction of the Containerfile, each time that it is there. */
function instructions(name: string): string[] {
  return instructionsOf(containerfile).flatMap((each) => (each.name === name ? [each.value] : []));
}

/** As serve reads it; throws for flags that are none. */
function served(command: readonly string[]): Config {
  assert.is(command[0], 'serve');
  return readConfig(command.slice(1), {});
}

function podConfig(): Config {
  const file = temporaryFolder().write('runnel.json', manifest('ConfigMap').data['runnel.json'] as string);
  const [, ...args] = pod.containers[0].args;
  assert.equal(args, ['--config', '/etc/runnel/runnel.json']);
  return readConfig(['--config', file], {});
}

test('the Containerfile is made of pinned images, of targets of make, and of flags of serve', () => {
  const stages = instructions('FROM').map((line) => {
    const [, image = '', name = ''] = /^(\S+) AS (\S+)$/.exec(line) ?? [];
    return { image, name };
  });
  assert.equal(
    stages.map(({ name }) => name),
    ['build', 'build-cuda', 'cpu', 'cuda'],
  );
  for (const { image } of stages)
    if (!stages.some(({ name }) => name === image))
      assert.match(image, /^docker\.io\/library\/node:\d+\.\d+\.\d+-bookworm(-slim)?$/);
  const targets = [...containerfile.matchAll(/\bmake ([a-z-]+)/g)].map(([, target]) => target as string);
  assert.ok(targets.length > 2);
  for (const target of targets.filter((name) => name !== 'python'))
    assert.match(read('Makefile'), new RegExp(`^${target}:`, 'm'));
  const command = JSON.parse(instructions('CMD')[0] as string) as string[];
  const { port, host } = served([...command, '--model', 'a']);
  assert.equal([host, instructions('EXPOSE')], ['0.0.0.0', [String(port)]]);
  assert.match(containerfile, `http://127.0.0.1:${port}/health`);
  assert.equal(JSON.parse(instructions('ENTRYPOINT')[0] as string), ['runnel']);
});

test('Compose serves what it has pulled, by flags that there are, and gives it the time to drain', () => {
  const { pull, runnel, 'runnel-cuda': cuda } = compose.services;
  assert.match(pullCommand.usage(), pull.command[1] as string);
  assert.equal([runnel.build.target, cuda.build.target], ['cpu', 'cuda']);
  for (const service of [runnel, cuda]) {
    assert.is(service.build.dockerfile, 'deploy/Containerfile');
    const config = served(service.command);
    assert.equal(pull.command, ['pull', '--if-missing', config.model]);
    assert.ok(service.init, 'ranks of a dead runner are reaped');
    parseHubName(config.model as string);
    assert.equal(service.ports, [`127.0.0.1:8080:${config.port}`]);
    assert.ok(service.volumes.some((volume) => volume.includes(`:${config['api-keys-file']}:ro`)));
    assert.ok(Number.parseInt(service.stop_grace_period, 10) >= config['drain-timeout-sec'] + SPARE_SEC);
  }
});

test('where a container’s gateway would be process 1, an init waits for ranks whose runner was killed', () => {
  for (const service of [compose.services.runnel, compose.services['runnel-cuda']])
    assert.is(service.init, true);
  assert.is(pod.shareProcessNamespace, true);
});

test('the manifests’ settings are those of serve, and the pod has the time to drain', () => {
  for (const { errors, warnings } of documents) assert.equal([errors, warnings], [[], []]);
  const config = podConfig();
  assert.equal(pod.initContainers[0]?.args, ['pull', '--if-missing', config.model]);
  assert.ok(pod.shareProcessNamespace, 'ranks of a dead runner are reaped');
  assert.equal(pod.containers[0].ports, [{ name: 'http', containerPort: config.port }]);
  const [program, seconds] = pod.containers[0].lifecycle.preStop.exec.command;
  assert.is(program, 'sleep');
  assert.ok(pod.terminationGracePeriodSeconds >= Number(seconds) + config['drain-timeout-sec'] + SPARE_SEC);
  assert.ok(config['drain-timeout-sec'] >= config['inference-timeout-sec'], 'a rollout cuts no answer');
  const services = manifests.filter(
    ({ kind, metadata }) => kind === 'Service' && !metadata.name.endsWith('-picker'),
  );
  assert.ok(services.some(({ metadata }) => metadata.name === manifest('StatefulSet').spec.serviceName));
  for (const { spec } of services) assert.is(spec.ports[0]?.targetPort, 'http');
  assert.ok(config['allowed-hosts'].includes(services[0]?.metadata.name as string));
});

test('fleets.md has the times of the manifest', () => {
  const page = read('docs/fleets.md');
  const [, seconds] = pod.containers[0].lifecycle.preStop.exec.command;
  assert.match(page, `\`preStop\` waits ${seconds} s`);
  assert.match(page, `\`drain-timeout-sec\` (${podConfig()['drain-timeout-sec']}, as`);
  assert.match(page, `\`terminationGracePeriodSeconds\` (${pod.terminationGracePeriodSeconds})`);
});

test('probes and annotations name paths that there are, and users are the same everywhere', async () => {
  const { get } = testApp();
  const { startupProbe, livenessProbe, readinessProbe } = pod.containers[0];
  assert.equal(
    [startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet.path),
    // Of a gateway whose runner has died, only the last one fails.
    ['/health', '/health', '/ready'],
  );
  const annotations = manifest('StatefulSet').spec.template.metadata.annotations;
  assert.is(annotations['prometheus.io/port'], String(podConfig().port));
  for (const path of ['/health', '/ready', annotations['prometheus.io/path'] as string])
    assert.is.not((await get(path)).status, 404, path);
  const { runAsUser, fsGroup } = pod.securityContext;
  assert.equal(instructions('USER'), [`${runAsUser}:${fsGroup}`]);
  assert.match(read('deploy/compose.yaml'), `chown ${runAsUser} api-keys`);
});

const hasSchemas = existsSync(SCHEMAS);
if (!hasSchemas)
  console.log(
    'SKIPPED: the schemas of Kubernetes are not downloaded; make kubernetes-schemas downloads them.',
  );
const schemaTest = hasSchemas ? test : test.skip;

/** A schema that takes no fields but those that it has: the ones of the API take any. */
function strict(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(strict);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, strict(member)]));
  const isClosed = typeof members.properties === 'object' && members.additionalProperties === undefined;
  return isClosed ? { ...members, additionalProperties: false } : members;
}

function schemaOf(name: string): object {
  const written = poolSchemas[name] ?? JSON.parse(readFileSync(`${SCHEMAS}${name}.json`, 'utf8'));
  return strict(written) as object;
}

schemaTest('each manifest is one by the schemas of Kubernetes, without fields that they do not have', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, validateSchema: false });
  ajv.addSchema(schemaOf('_definitions'), '/api/_definitions.json');
  const names = manifests.map(({ kind, apiVersion }) =>
    `${kind}-${apiVersion.replace(/(\.[^/]+)?\//, '-')}`.toLowerCase(),
  );
  const validators = new Map([...new Set(names)].map((name) => [name, ajv.compile(schemaOf(name))]));
  const [rollout = ''] = codeBlocksOf('docs/fleets.md', 'yaml');
  const { selector, template } = manifest('StatefulSet').spec;
  const { strategy } = (parse(rollout) as { spec: { strategy: object } }).spec;
  const deployment = { ...manifest('Deployment'), spec: { selector, template, strategy } };
  const isDeployment = validators.get('deployment-apps-v1') as ValidateFunction;
  assert.ok(isDeployment(deployment), `fleets.md: ${ajv.errorsText(isDeployment.errors)}`);
  for (const [index, manifest] of manifests.entries()) {
    const { kind } = manifest;
    const isValid = validators.get(names[index] as string) as ValidateFunction;
    assert.ok(isValid(manifest), `${kind}: ${ajv.errorsText(isValid.errors)}`);
    assert.not.ok(isValid({ ...manifest, metadata: { nmae: 'a typo' } }), kind);
  }
  console.log(`${manifests.length} manifests are valid`);
});

test.run();
