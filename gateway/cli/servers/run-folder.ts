import { join } from 'node:path';
import { isUnspecified } from '../../config/kinds.ts';
import { cacheFolder } from '../../models/model-cache.ts';
import type { Address } from '../../server/http-server.ts';
import { writeRunFile } from '../../system/run-files.ts';
import type { Log } from '../../telemetry/log.ts';
import { formatAddress } from '../startup-banner.ts';

/** Where servers of this user say that they run: XDG_RUNTIME_DIR, else the cache. */
export function runFolder(): string {
  const { XDG_RUNTIME_DIR } = process.env;
  return XDG_RUNTIME_DIR ? join(XDG_RUNTIME_DIR, 'runnel') : join(cacheFolder(), 'run');
}

/** Lets `ps` and `stop` find this server. One that cannot be found serves all the same. */
export function announceRun(address: Address, log: Log): void {
  try {
    writeRunFile(runFolder(), formatAddress(reachable(address)));
  } catch (error) {
    log.warn({ event: 'run_file_unwritten', msg: (error as Error).message });
  }
}

/** Where programs of this machine reach what listens on all of its addresses. */
function reachable(address: Address): Address {
  if ('path' in address || !isUnspecified(address.host)) return address;
  return { ...address, host: address.host.includes(':') ? '::1' : '127.0.0.1' };
}
