import type { Context } from 'hono';
import type { Log } from '../ops/log.ts';

const HEADER = 'x-runnel-ignored';

/** Tells the client, and whoever looks closely at the log, what it sent for nothing. The names are ours, not the client's. */
export function tellIgnored(c: Context, log: Log, names: readonly string[]): void {
  if (names.length === 0) return;
  c.header(HEADER, names.join(', '));
  log.debug({ event: 'fields_ignored', fields: names, path: c.req.path, request_id: c.get('requestId') });
}
