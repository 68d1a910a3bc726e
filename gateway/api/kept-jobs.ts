import { ApiError } from '../errors/api-error.ts';
import type { DurableJob } from '../journal/durable-job.ts';
import type { DurableJobs } from '../journal/durable-jobs.ts';
import type { Model } from '../models/model.ts';
import type { RouteDeps } from '../server/route-group.ts';
import { readModel } from './use-model.ts';

/** What the routes of durable jobs have in common. */

/** Where jobs are kept; where they are not, a 400 on the field that asks for it. */
export function requireJobs({ jobs }: Pick<RouteDeps, 'jobs'>, field: string): DurableJobs {
  if (jobs !== undefined) return jobs;
  const message = `${field} needs a journal, and this server keeps none: start it with --journal-dir`;
  const fieldErrors = [{ field, constraint: 'journal', message, value: 'true' }];
  throw new ApiError({ status: 400, code: 'no_journal', message, fieldErrors });
}

/** The model that a job's tokens are text by: a 409 where its file is another one now, and what readModel throws. */
export async function modelOfJob({ record }: DurableJob, deps: RouteDeps): Promise<Model> {
  // A model that is alone has no name before its file has been read.
  const model = await readModel(deps.models.isOnDemand ? record.model : undefined, deps);
  const { modelFile } = record;
  if (modelFile === model.file) return model;
  const message = `The model's file has changed since this job was begun, from ${modelFile} to ${model.file} (size, time and inode): its text cannot be told any more.`;
  throw new ApiError({ status: 409, code: 'model_changed', message });
}
