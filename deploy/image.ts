/**
 * `make image`: an OCI image of a Debian package of Runnel, made without a daemon. Its only layer is a minimal Debian with Node
 * and the package; its settings are those of deploy/Containerfile. The same packages give the same bytes: times are those of the
 * last commit, or SOURCE_DATE_EPOCH.
 *
 * --package FILE      the Debian package, which `make dist` makes
 * --out FOLDER        where runnel-VERSION-ARCHITECTURE.oci.tar goes; with --variant cuda, -cuda follows the architecture
 * --variant NAME      cpu or cuda: a stage of the Containerfile
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  createReadStream,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { parseArgs } from 'node:util';
import { createGzip } from 'node:zlib';
import { configOfStage } from './containerfile.ts';
import { ROOT } from './source-urls.ts';

/** The first Debian whose own Node is new enough. */
const DEBIAN = 'trixie';
const PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

const { values } = parseArgs({
  options: {
    package: { type: 'string' },
    out: { type: 'string', default: 'build/dist' },
    variant: { type: 'string', default: 'cpu' },
  },
});

function refuse(sentence: string): never {
  console.error(`image: ${sentence}`);
  process.exit(64);
}

const output = (file: string, ...args: readonly string[]): string =>
  execFileSync(file, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 26 }).trim();

/** Writes a root folder with the package installed into an archive. */
function makeRoot(
  debian: string,
  architecture: string,
  config: { readonly User: string },
  epoch: string,
  to: string,
): void {
  const names = output('dpkg-deb', '-f', debian, 'Depends')
    .split(',')
    .map((each) => /^\s*(\S+)/.exec(each)?.[1] ?? '');
  const [user = '', group = ''] = config.User.split(':');
  const hooks = [
    `upload ${debian} /tmp/runnel.deb`,
    'chroot "$1" dpkg --install /tmp/runnel.deb && rm "$1/tmp/runnel.deb"',
    `install -d -o ${user} -g ${group} "$1/var/lib/runnel" && install -d "$1/models"`,
  ];
  const excluded = ['man', 'locale', 'info', 'doc'].map((name) => `path-exclude=/usr/share/${name}/*`);
  const dpkg = [...excluded, 'path-include=/usr/share/doc/*/copyright'];
  const args = [
    '--quiet',
    '--variant=minbase',
    `--architectures=${architecture}`,
    `--include=${[...names, 'ca-certificates'].join()}`,
    ...dpkg.map((option) => `--dpkgopt=${option}`),
    ...hooks.map((hook) => `--customize-hook=${hook}`),
    ...[DEBIAN, to],
  ];
  execFileSync('mmdebstrap', args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, SOURCE_DATE_EPOCH: epoch },
  });
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

/** Moves a file among the blobs of an image's folder, and describes it. */
async function addBlob(folder: string, path: string, mediaType: string) {
  const digest = await sha256Of(path);
  const { size } = statSync(path);
  renameSync(path, join(folder, 'blobs/sha256', digest));
  return { mediaType, digest: `sha256:${digest}`, size };
}

async function makeImage(): Promise<void> {
  const { package: debian, out, variant } = values;
  if (debian === undefined) refuse('--package is missing; make dist makes a Debian package.');
  const epoch = process.env.SOURCE_DATE_EPOCH ?? output('git', 'log', '-1', '--format=%ct');
  const architecture = output('dpkg-deb', '-f', debian, 'Architecture');
  const version = output('dpkg-deb', '-f', debian, 'Version');
  if (variant === 'cuda' && !output('dpkg-deb', '-c', debian).includes('/build/cuda-runner'))
    refuse(`${debian} has no cuda-runner; run make cuda-runner and make dist first.`);
  const config = configOfStage(readFileSync(join(ROOT, 'deploy/Containerfile'), 'utf8'), variant);

  mkdirSync(out, { recursive: true });
  const work = mkdtempSync(join(out, 'image-'));
  const folder = join(work, 'image');
  mkdirSync(join(folder, 'blobs/sha256'), { recursive: true });
  try {
    const root = join(work, 'root.tar');
    makeRoot(debian, architecture, config, epoch, root);
    const diffId = `sha256:${await sha256Of(root)}`;
    const packed = join(work, 'root.tar.gz');
    await pipeline(createReadStream(root), createGzip(), createWriteStream(packed));
    const addJson = (value: object, mediaType: string) => {
      const path = join(work, 'blob.json');
      writeFileSync(path, JSON.stringify(value));
      return addBlob(folder, path, mediaType);
    };

    const layer = await addBlob(folder, packed, 'application/vnd.oci.image.layer.v1.tar+gzip');
    const created = new Date(Number(epoch) * 1000).toISOString();
    const labels = {
      'org.opencontainers.image.version': version,
      'org.opencontainers.image.licenses': 'Apache-2.0',
    };
    const about = await addJson(
      {
        ...{ created, architecture, os: 'linux' },
        config: { ...config, Env: [PATH, ...config.Env], Labels: labels },
        rootfs: { type: 'layers', diff_ids: [diffId] },
        history: [{ created, created_by: `mmdebstrap ${DEBIAN}, dpkg --install runnel ${version}` }],
      },
      'application/vnd.oci.image.config.v1+json',
    );
    const mediaType = 'application/vnd.oci.image.manifest.v1+json';
    const manifest = await addJson(
      { schemaVersion: 2, mediaType, config: about, layers: [layer] },
      mediaType,
    );
    const annotations = { 'org.opencontainers.image.ref.name': version };
    const index = {
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.index.v1+json',
      manifests: [{ ...manifest, annotations }],
    };
    writeFileSync(join(folder, 'index.json'), JSON.stringify(index));
    writeFileSync(join(folder, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }));

    const name = `runnel-${version}-${architecture}${variant === 'cpu' ? '' : `-${variant}`}.oci.tar`;
    const archive = join(work, name);
    const sameBytes = [
      '--sort=name',
      `--mtime=@${epoch}`,
      '--owner=0',
      '--group=0',
      '--numeric-owner',
      '--mode=u=rwX,go=rX',
    ];
    output('tar', ...sameBytes, '-C', folder, '-cf', resolve(archive), '.');
    renameSync(archive, join(out, name));
    console.log(join(out, name));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

await makeImage();
