/** The main program of the keeper, a process of the gateway: see keeper.ts. */

import { randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import xxhash from 'xxhash-wasm';
import { errorCodeOf, messageOf } from '../../errors/thrown.ts';
import { withLock } from '../../system/file-lock.ts';
import { BlockFile, KvDiskError } from './block-file.ts';
import { secretBytes } from './file-records.ts';
import { Keeper } from './keeper.ts';
import type { FromKeeper, ToKeeper } from './messages.ts';

type Open = Extract<ToKeeper, { type: 'open' }>;

const FIGURES_MS = 1000;
/** What the runners had computed when the gateway died is saved in this time. */
const LAST_SAVE_MS = 5000;

let keeper: Keeper | undefined;
/** Messages that came before the file was open. */
const early: Exclude<ToKeeper, Open>[] = [];
let told = '';

process.on('message', (message: ToKeeper) => {
  if (message.type === 'open') void use(message).catch(fail);
  else if (keeper === undefined) early.push(message);
  else void keeper.handle(message).catch(fail);
});
process.on('disconnect', () => void end());
// Ctrl-C in a terminal also reaches this process, while the draining gateway may still need it.
process.on('SIGINT', () => undefined);

/** Holds the lock of the file until the process ends. A lock whose owner is dead is taken over. */
async function use({ path, fileBytes, secretPath }: Open): Promise<void> {
  const { h64Raw } = await xxhash();
  await withLock(
    `${path}.lock`,
    (ownerPid) => tell({ type: 'waiting', ownerPid }),
    async () => {
      const file = await BlockFile.open(path, fileBytes, secretAt(secretPath));
      keeper = new Keeper(file, h64Raw, tell);
      tell({ type: 'opened', figures: keeper.figures });
      for (const message of early.splice(0)) await keeper.handle(message);
      setInterval(tellFigures, FIGURES_MS).unref();
      await new Promise<void>((resolve) => (released = resolve));
      file.close();
    },
  );
}

let released: () => void = () => {};

/** The gateway has ended, or is about to. */
async function end(): Promise<void> {
  setTimeout(() => process.exit(0), LAST_SAVE_MS).unref();
  await keeper?.saveAll().catch(() => {});
  released();
  // The lock is gone by the next turn but one.
  setTimeout(() => process.exit(0));
}

function tell(message: FromKeeper): void {
  if (process.connected) process.send?.(message);
}

function tellFigures(): void {
  if (keeper === undefined) return;
  const { figures } = keeper;
  const text = JSON.stringify(figures);
  if (text !== told) tell({ type: 'figures', figures });
  told = text;
}

function fail(error: unknown): void {
  const reason =
    error instanceof KvDiskError ? error.message : `The file cannot be used: ${messageOf(error)}.`;
  tell({ type: 'failed', reason });
  process.disconnect();
}

/** The secret in this file, which is made if it is not there. Only this user can read it. */
function secretAt(path: string): Buffer {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const own = `${path}.${process.pid}`;
  writeFileSync(own, randomBytes(secretBytes), { mode: 0o600 });
  try {
    linkSync(own, path);
  } catch (error) {
    if (errorCodeOf(error) !== 'EEXIST') throw error;
  } finally {
    rmSync(own, { force: true });
  }
  const secret = readFileSync(path);
  if (secret.length === secretBytes) return secret;
  throw new KvDiskError(
    `The secret ${path} has ${secret.length} bytes and must have ${secretBytes}: remove it, and the blocks that were kept are forgotten.`,
  );
}
