import type { Context } from 'hono';
import type { Log } from '../telemetry/log.ts';

const HEADER = 'x-runnel-ignored';
/** The most names that the header lists; the others are counted. */
const MAX_NAMES = 32;

/** Tells the client, and the log at level debug, which fields were ignored, besides those that it was told before. */
export function tellIgnored(c: Context, log: Log, ignored: readonly string[]): void {
  if (ignored.length === 0) return;
  const names = ignored.slice(0, MAX_NAMES);
  if (ignored.length > MAX_NAMES) names.push(`${ignored.length - MAX_NAMES} more`);
  c.header(HEADER, names.join(', '), { append: true });
  log.debug({ event: 'fields_ignored', fields: names, path: c.req.path, request_id: c.get('requestId') });
}
