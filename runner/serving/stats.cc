#include "runner/serving/stats.h"

namespace runnel {

wire::Stats stats_of(const Engine& engine) {
  const Scheduler& scheduler = engine.scheduler();
  const SchedulerCounts& scheduled = scheduler.counts();
  const EngineCounts& computed = engine.counts();
  wire::Stats stats;
  stats.set_num_waiting(scheduler.num_waiting());
  stats.set_num_running(scheduler.num_running());
  stats.set_num_paused(scheduler.num_paused());
  stats.set_num_finished(computed.num_finished);
  stats.set_num_failed(computed.num_failed);
  stats.set_num_preemptions(scheduled.num_preemptions);
  stats.set_num_prefill_steps(scheduled.num_prefill_steps);
  stats.set_num_decode_steps(scheduled.num_decode_steps);
  stats.set_num_mixed_steps(scheduled.num_mixed_steps);
  stats.set_num_prefill_sequences(scheduled.num_prefill_sequences);
  stats.set_num_decode_sequences(scheduled.num_decode_sequences);
  stats.set_num_prefill_tokens(scheduled.num_prefill_tokens);
  stats.set_num_cached_tokens(scheduled.num_cached_tokens);
  stats.set_num_generated_tokens(computed.num_generated_tokens);
  stats.set_num_draft_tokens(scheduled.num_drafts);
  stats.set_num_accepted_draft_tokens(computed.num_accepted_drafts);
  stats.set_num_free_blocks(scheduler.blocks().pool().num_free());
  stats.set_num_reusable_blocks(scheduler.blocks().pool().num_reusable());
  stats.set_num_adopted_blocks(scheduler.blocks().pool().num_adopted());
  stats.set_num_dropped_blocks(scheduler.blocks().pool().num_dropped());
  const auto busy = std::chrono::duration_cast<std::chrono::microseconds>(computed.busy);
  stats.set_busy_us(static_cast<uint64_t>(busy.count()));
  return stats;
}

}  // namespace runnel
