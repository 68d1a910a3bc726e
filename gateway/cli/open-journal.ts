import { join } from 'node:path';
import type { Batches } from '../batches/batches.ts';
import type { Config } from '../config/config.ts';
import { messageOf } from '../errors/thrown.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { Journal, type JournalBounds, type JournalOptions } from '../journal/journal.ts';
import { JournalError, JournalUnavailable, passingReasonOf } from '../journal/journal-error.ts';
import type { KeyDigests } from '../server/guard/caller.ts';
import { stateFolder } from '../system/state-folder.ts';
import type { Log } from '../telemetry/log.ts';

/**
 * Opens the journal in the state folder. If that cannot be used, for example because another gateway of this user has it, the log
 * says so and there is none: nobody asked for it.
 */
export async function openDefaultJournal(
  jobs: Jobs,
  batches: Batches,
  digests: KeyDigests,
  config: Config,
  log: Log,
): Promise<void> {
  const folder = join(stateFolder(process.env), 'journal');
  try {
    await openJournal(jobs, batches, digests, folder, config, log);
  } catch (error) {
    const reason = messageOf(error);
    const msg = `No journal is kept in ${folder}, so durable jobs are refused; --journal-dir names another folder. ${reason}`;
    log.warn({ event: 'journal_off', msg });
  }
}

/**
 * Opens the journal in a folder, and the files and batches beside it, and begins to resume its unfinished jobs. It must be called before requests come. Throws
 * JournalError if the folder cannot be used.
 */
export async function openJournal(
  jobs: Jobs,
  batches: Batches,
  digests: KeyDigests,
  folder: string,
  config: Config,
  log: Log,
): Promise<void> {
  const bounds: JournalBounds = {
    maxJobs: config['journal-max-jobs'],
    maxBytes: config['journal-max-bytes'],
    keepMs: config['journal-keep-sec'] * 1000,
  };
  let areRequestsComing = false;
  const open = async (): Promise<Journal> => {
    const journal = await Journal.open(folder, { ...bounds, ...reportsOf(folder, log), now: Date.now });
    try {
      openBatches(batches, `${folder}-batches`);
    } catch (error) {
      await journal.close();
      throw error;
    }
    digests.keep(journal.secret, areRequestsComing);
    const { numJobs, numBytes: bytes } = journal.stats;
    log.info({
      event: 'journal_opened',
      ...{ folder, jobs: numJobs, unfinished: journal.unfinished.length, bytes },
      ...{ max_jobs: bounds.maxJobs, max_bytes: bounds.maxBytes, keep_sec: bounds.keepMs / 1000 },
    });
    return journal;
  };
  await jobs.begin(open, bounds.keepMs);
  areRequestsComing = true;
}

/** The journal is open: its lock is also that of this folder. */
function openBatches(batches: Batches, folder: string): void {
  try {
    batches.open(folder);
  } catch (error) {
    const reason = passingReasonOf(error);
    if (reason !== undefined)
      throw new JournalUnavailable(`The folder ${folder} cannot be opened now: ${reason}.`, { cause: error });
    throw new JournalError(
      `The files and batches in ${folder} cannot be read (${messageOf(error)}): move the folder away to start without them, which loses them.`,
      { cause: error },
    );
  }
}

function reportsOf(
  folder: string,
  log: Log,
): Pick<JournalOptions, 'onFailed' | 'onDamaged' | 'onUnknown' | 'onDropped'> {
  return {
    onFailed: (error) => {
      const reason = messageOf(error);
      const msg = `The journal in ${folder} cannot be written: ${reason}. Running jobs continue, but they are lost when this process ends.`;
      log.error({ event: 'journal_failed', msg });
    },
    onDamaged: (key, reason) => {
      const msg = `A job in the journal ${folder} cannot be read (${reason}) and is removed.`;
      log.error({ event: 'journal_entry_damaged', key, msg });
    },
    onUnknown: (key, reason) => {
      const msg = `A job in the journal ${folder} was written by another version (${reason}) and is left to it.`;
      log.error({ event: 'journal_entry_unknown', key, msg });
    },
    onDropped: (bytes) => {
      const msg = `The journal in ${folder} was damaged: ${bytes} bytes could not be read and were dropped, with the jobs and tokens in them.`;
      log.error({ event: 'journal_damaged', bytes, msg });
    },
  };
}
