import { findModel, readServed } from '../calls/use-model.ts';
import { ApiError } from '../errors/api-error.ts';
import type { DurableJob } from '../journal/durable-job.ts';
import type { DurableJobs } from '../journal/durable-jobs.ts';
import type { Model } from '../models/model.ts';
import type { RouteDeps } from '../server/route-group.ts';

/** What the routes of durable jobs have in common. */

/** The journal's jobs. Throws a 400 on `field`, which asks for one, if there is no journal. */
export function requireJobs({ jobs }: Pick<RouteDeps, 'jobs'>, field: string): DurableJobs {
  if (jobs !== undefined) return jobs;
  const message = `${field} needs a journal, which this server does not have: it was started with --journal-dir off, or its log says why`;
  const fieldErrors = [{ field, constraint: 'journal', message, value: 'true' }];
  throw new ApiError({ status: 400, code: 'no_journal', message, fieldErrors });
}

/**
 * The model whose tokenizer makes text of the job's tokens. Throws a 409 if the model's file has changed since, and what
 * findModel and readServed throw.
 */
export async function modelOfJob({ record }: DurableJob, deps: RouteDeps): Promise<Model> {
  // The sole model may have got another name since, or have none yet.
  const model = await readServed(deps.models.sole ?? findModel(record.model, deps));
  const { modelFile } = record;
  if (modelFile === model.file) return model;
  const message = `The model's file has changed since this job was begun, from ${modelFile} to ${model.file} (size, time and inode): its tokens can no longer be turned into text.`;
  throw new ApiError({ status: 409, code: 'model_changed', message });
}
