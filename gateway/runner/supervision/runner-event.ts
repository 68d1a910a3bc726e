/** All log events about runners. The list is typed so that code cannot ask for a name that does not exist. */
export const runnerEventNames = [
  'model_load_start',
  'model_load_progress',
  'model_load_complete',
  'model_failed',
  'model_file_changed',
  'model_file_differs',
  'model_change_draining',
  'model_change_loading',
  'model_change_complete',
  'model_change_failed',
  'runner_exited',
  'runner_restarting',
  'runner_stderr',
  'runner_draining',
  'runner_replacing',
  'runner_replacement_failed',
  'internal_error',
  'numerics_changed',
  'weights_dropped',
  'kv_cache_dropped',
  'kv_disk_unused',
  'request_quarantined',
  'request_parked',
  'breaker_opened',
  'breaker_closed',
  'backend_change_draining',
  'backend_change_loading',
  'backend_change_complete',
  'backend_change_failed',
  'backend_fallback',
  'backend_ready',
  'device_quarantined',
  'device_retired',
] as const;

export type RunnerEventName = (typeof runnerEventNames)[number];

export interface RunnerEvent {
  readonly level: 'info' | 'warn' | 'error';
  readonly event: RunnerEventName;
  readonly [key: string]: unknown;
}
