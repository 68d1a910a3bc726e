import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type * as z from 'zod';
import { messageOf } from '../errors/thrown.ts';
import { PART } from '../system/synced-file.ts';
import type { Log } from '../telemetry/log.ts';

/** Folders of records: files of JSON, each with the id of its record as its name. */

export const RECORD = '.json';

/** What is in such a folder, besides the records whatever else lies there by its name. */
export interface Found<Kept> {
  readonly records: readonly Kept[];
  readonly names: ReadonlySet<string>;
}

/**
 * Reads a folder, which need not exist, and removes what a death has left half written. A damaged record is logged and stays where it
 * is: no other is lost with it, and somebody may mend it. Throws what the system throws.
 */
export function readRecords<Kept>(folder: string, schema: z.ZodType<Kept>, log: Log): Found<Kept> {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const records: Kept[] = [];
  for (const name of names) {
    const path = join(folder, name);
    if (name.endsWith(PART)) rmSync(path, { force: true });
    if (!name.endsWith(RECORD)) continue;
    const text = readFileSync(path, 'utf8');
    try {
      records.push(schema.parse(JSON.parse(text)));
    } catch (error) {
      const msg = `The record ${path} cannot be read and is left out: ${messageOf(error)}`;
      log.error({ event: 'batch_record_damaged', file: path, msg });
    }
  }
  return { records, names: new Set(names) };
}
