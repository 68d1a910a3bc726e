import { join, resolve } from 'node:path';
import type { BatchBounds } from '../batches/batches.ts';
import type { Config } from '../config/config.ts';
import { isLoopback, isUnspecified } from '../config/kinds.ts';
import { refuse } from '../errors/exit-code.ts';
import type { AdmissionGateOptions } from '../models/admission-gate.ts';
import type { LoadedModelOptions } from '../models/loaded-model.ts';
import type { KvDiskOptions } from '../runner/kv-disk/kv-disk.ts';
import {
  connectionsWithin,
  type Descriptors,
  DescriptorsError,
  reservedDescriptors,
} from '../server/descriptor-budget.ts';
import { KeyFiles } from '../server/guard/api-keys.ts';
import type { GuardRules } from '../server/guard/guard.ts';
import type { Address, HttpLimits } from '../server/http-server.ts';
import { stateFolder } from '../system/state-folder.ts';
import { formatAddress } from './startup-banner.ts';

/** Translates the settings of `runnel serve` into the options of its parts. */

export function addressOf({ uds, host, port }: Config): Address {
  return uds === undefined ? { host, port } : { path: uds };
}

/**
 * Checks the socket that systemd passes on, which the settings alone do not describe. Throws UsageError if it contradicts them.
 */
export function requireUsableAddress(address: Address, config: Config): void {
  if (config.playground === 'dev' && ('path' in address || !isLoopback(address.host)))
    refuse([
      `--playground dev lets everyone who reaches the page kill the runner: the socket that systemd passes must have a loopback address, got ${formatAddress(address)}.`,
    ]);
  if ('path' in address) return;
  const host = JSON.stringify(address.host);
  const faults: string[] = [];
  if (!isLoopback(address.host) && config['api-keys-file'] === undefined)
    faults.push(
      `The socket that systemd passes must have a loopback address, got ${host}; to let others in, set --api-keys-file as well.`,
    );
  if (
    isUnspecified(address.host) &&
    config['callback-url'] !== undefined &&
    config['advertise-url'] === undefined
  )
    faults.push(
      `--callback-url needs --advertise-url with a socket of the address ${host}, at which the pool manager cannot reach this worker.`,
    );
  refuse(faults);
}

/** The bounds of files and batches. A line is bounded as a body is. */
export function batchBounds(config: Config): BatchBounds {
  return {
    maxFileBytes: config['max-file-bytes'],
    maxBytes: config['files-max-bytes'],
    maxOpenLines: config['batch-open-lines'],
    maxLineBytes: config['max-body-bytes'],
  };
}

/** Options of a model's gate. */
export function gateOptions(
  config: Config,
  onRefused: AdmissionGateOptions['onRefused'],
): AdmissionGateOptions {
  return {
    maxWaiting: config['max-open-requests'],
    maxWaitMs: config['inference-timeout-sec'] * 1000,
    now: Date.now,
    onRefused,
  };
}

/** Options of a model that is loaded. */
export function loadedOptions(
  config: Config,
): Pick<
  LoadedModelOptions,
  'numRunners' | 'maxOpenRequests' | 'maxQueuedTokens' | 'parksByPriority' | 'limits'
> {
  return {
    numRunners: config.runners,
    parksByPriority: config['park-by-priority'] === 'on',
    maxOpenRequests: config['max-open-requests'],
    maxQueuedTokens: config['max-queued-tokens'],
    limits: { wedgeMs: config['wedge-timeout-sec'] * 1000 },
  };
}

/** Where and how KV caches are kept on the disk; undefined: they are not. */
export function kvDiskOptions(config: Config): Omit<KvDiskOptions, 'log'> | undefined {
  const { 'kv-disk': path, 'kv-disk-bytes': fileBytes } = config;
  if (path === undefined || fileBytes === undefined) return undefined;
  return { path: resolve(path), fileBytes, secretPath: join(stateFolder(process.env), 'kv-disk.secret') };
}

/** The rules of the guard. This reads the keys. */
export function guardRules(config: Config): GuardRules & { readonly apiKeys: KeyFiles | undefined } {
  const { 'api-keys-file': clients, 'admin-keys-file': admins } = config;
  return {
    hosts: [config.host, ...config['allowed-hosts']],
    corsOrigins: config['cors-origins'],
    cacheSharing: config['prefix-cache-sharing'],
    apiKeys: clients === undefined ? undefined : new KeyFiles({ clients, admins }),
  };
}

/** Throws DescriptorsError if the process may not open enough descriptors for a single connection. */
export function httpLimits(config: Config, descriptors: Descriptors): HttpLimits {
  const maxConnections = connectionsWithin(descriptors, config['max-connections']);
  if (maxConnections === 0) {
    const { limit, inUse } = descriptors;
    throw new DescriptorsError(
      `The limit of open files is ${limit}: ${inUse} are open, ${reservedDescriptors} are kept for runners and files, and none is left for connections; raise it (ulimit -n, LimitNOFILE=).`,
    );
  }
  return {
    headersTimeoutMs: config['headers-timeout-sec'] * 1000,
    requestTimeoutMs: config['request-timeout-sec'] * 1000,
    checkIntervalMs: config['timeouts-check-interval-sec'] * 1000,
    keepAliveTimeoutMs: config['keep-alive-timeout-sec'] * 1000,
    clientStallTimeoutMs: config['client-stall-timeout-sec'] * 1000,
    maxConnections,
    maxRequestsPerConnection: config['max-requests-per-connection'],
    maxHeaders: config['max-headers'],
  };
}
