#include "runner/sampling/sequence_masks.h"

#include <algorithm>
#include <utility>

namespace runnel {

void SequenceMasks::allow_late(std::function<void()> on_mask) {
  budget_.emplace();
  filler_->on_done(std::move(on_mask));
}

void SequenceMasks::forbid_late() {
  budget_.reset();
  filler_->on_done(nullptr);
}

void SequenceMasks::start(Sequence& sequence, uint32_t max_guesses) {
  if (std::exchange(sequence.has_mask_job, true)) return;
  if (!sequence.mask_job) {
    sequence.mask_job = std::make_shared<MaskJob>();
    sequence.mask_job->mask = sequence.mask;
  }
  std::vector<uint32_t>& ids = sequence.mask_job->generated_ids;
  const auto generated = std::span(sequence.token_ids).subspan(sequence.num_prompt_tokens);
  ids.insert(ids.end(), generated.begin() + static_cast<int64_t>(ids.size()), generated.end());
  sequence.mask_job->max_guesses = max_guesses;
  filler_->start(sequence.mask_job);
}

void SequenceMasks::take(std::span<Sequence* const> sequences, const SteadyClock& now) {
  std::vector<std::shared_ptr<MaskJob>> jobs;
  for (const Sequence* sequence : sequences)
    if (!sequence->is_cancelled && !sequence->mask_is_late) jobs.push_back(sequence->mask_job);
  const auto began_at = now();
  const auto at_most = budget_ ? std::optional(budget_->left()) : std::nullopt;
  if (!jobs.empty()) filler_->wait(jobs, at_most);
  waited_ = now() - began_at;
  for (Sequence* sequence : sequences) {
    if (sequence->is_cancelled) continue;
    if (!sequence->mask_is_late && filler_->is_done(*sequence->mask_job)) {
      take_masks(*sequence, vocab_size_);
      sequence->has_mask_job = false;
    } else {
      sequence->mask_is_late = true;
      --sequence->num_scheduled_tokens;
    }
  }
}

void SequenceMasks::end_step(std::chrono::nanoseconds took) {
  if (!budget_) return;
  budget_->waited(waited_);
  budget_->computed(took - waited_);
}

void SequenceMasks::drop(Sequence& sequence) {
  std::erase(late_, &sequence);
  if (sequence.mask_job) filler_->drop(sequence.mask_job);
}

std::vector<uint32_t> SequenceMasks::late_with_masks() {
  std::vector<uint32_t> request_ids;
  for (const Sequence* sequence : late_)
    if (filler_->is_done(*sequence->mask_job)) request_ids.push_back(sequence->request_id);
  return request_ids;
}

Sequence* SequenceMasks::take_late(uint32_t request_id) {
  const auto place = std::ranges::find(late_, request_id, &Sequence::request_id);
  if (place == late_.end()) return nullptr;
  Sequence* const sequence = *place;
  late_.erase(place);
  filler_->wait({&sequence->mask_job, 1}, std::nullopt);
  sequence->mask_is_late = false;
  return sequence;
}

void SequenceMasks::wait_for_late(std::chrono::milliseconds at_most) {
  if (has_late()) filler_->wait({&late_.front()->mask_job, 1}, at_most);
}

}  // namespace runnel
