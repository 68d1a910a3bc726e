// Owns the requests and computes them step by step: schedule, forward, sample. serve, generate, score and
// bench all use this engine. It knows nothing of frames, files or threads.
//
// A step computes rows for several sequences, and the result of a sequence does not depend on the others. So
// a request may be cancelled at any time, also between schedule() and the end of compute(). The other
// requests get the same results, whether the rows of the cancelled one were left out, cut off or computed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runner/backend/batch.h"
#include "runner/engine/request.h"
#include "runner/engine/scheduler.h"
#include "runner/engine/sequence.h"
#include "runner/models/model.h"
#include "runner/sampling/logprobs.h"
#include "runner/sampling/mask_filler.h"
#include "runner/sampling/sequence_masks.h"
#include "runner/system/steady_clock.h"

namespace runnel {

// Limit of the requests held at once, including waiting and paused ones.
constexpr uint32_t kMaxRequests = 1024;
// Limit of the ids of all prompts held at once. Answers do not count: they grow after the request was
// accepted, and a request that is continued after a crash must not be refused for its length.
constexpr uint64_t kMaxHeldTokens = uint64_t{1} << 22;
// Limit of the rows whose logits the model computes in one call; bounds the memory of logits.
constexpr uint32_t kMaxHeadRows = 32;
// The same for a GPU, which reads the output matrix for each call, and waits at its end.
constexpr uint32_t kMaxGpuHeadRows = 256;

struct EngineConfig {
  uint32_t max_model_len;  // tokens of prompt and answer together
  SchedulerConfig scheduler;
  uint32_t num_mask_threads = 2;
  uint32_t max_head_rows = kMaxHeadRows;
};

// How a request came to the first token that this engine drew for it.
struct FirstToken {
  uint32_t num_reused_tokens;  // found in the KV cache and not computed
  std::chrono::microseconds queued;
  std::chrono::microseconds prefill;
};

struct NewToken {
  uint32_t request_id;
  uint32_t index;  // among the generated tokens, including those of earlier runners
  uint32_t token_id;
  FinishReason finish_reason;             // kNone: the request goes on
  std::optional<TokenLogprobs> logprobs;  // if the request asked for them
  std::optional<FirstToken> first;        // if it is the first token
  bool was_draft = false;
};

// The log-probabilities of a token of the prompt, for sequences with prompt_logprobs.
struct ScoredToken {
  uint32_t request_id;
  uint32_t index;  // in the prompt, from 1 on; each is scored once, however often its row is computed
  TokenLogprobs logprobs;
};

// The result of a sequence that asked for a vector, which ends with it.
struct Embedded {
  uint32_t request_id;
  std::vector<float> values;
  FirstToken first;  // times until the vector was complete
};

struct StepOutput {
  // The tokens of a request lie together, in order: a token and accepted drafts.
  std::vector<NewToken> tokens;
  std::vector<ScoredToken> scored;  // at most one for each row; those of a request lie together, in order
  std::vector<Embedded> embedded;
  std::vector<RequestError> errors;  // requests that this step ended
  std::vector<uint32_t> late;        // ids of requests that sat the step out, since their masks were late
};

// Counts since the engine was made.
struct EngineCounts {
  // Requests that ended with their result, or that were cancelled because they had it; num_failed has the
  // others.
  uint64_t num_finished = 0;
  uint64_t num_failed = 0;
  uint64_t num_generated_tokens = 0;
  uint64_t num_accepted_drafts = 0;
  std::chrono::steady_clock::duration busy{};  // time from schedule() to the end of compute()
};

class Engine {
 public:
  // Called while a step computes: between two layers, and for each group of max_head_rows rows of logits or
  // hidden states. For logits, the call comes before the wait for them, since a device may still be
  // computing.
  using DuringStep = std::function<void()>;

  // The model must outlive the engine. It must be made for max_num_batched_tokens rows, max_head_rows rows of
  // logits, and the scheduler's blocks.
  // masks: null for MaskThreads.
  Engine(Model& model, const EngineConfig& config, SteadyClock now = std::chrono::steady_clock::now,
         std::unique_ptr<MaskFiller> masks = nullptr);

  // Accepts a request, or returns why not: there are kMaxRequests requests or kMaxHeldTokens ids, or its
  // blocks would not fit into an empty cache. Its id must be new, and its values within the limits of
  // sequence_from.
  [[nodiscard]] std::optional<RequestError> add(Sequence sequence);
  // is_complete: the answer has all that was asked for. Returns false if there is no such request. This is
  // the only function that DuringStep may call.
  bool cancel(uint32_t request_id, bool is_complete = false);
  // These do nothing if there is no such request.
  void pause(uint32_t request_id);
  void resume(uint32_t request_id);
  void resume_all();

  // A step waits for all masks of its sequences, unless this was called. Then it waits as long as MaskBudget
  // allows. A sequence whose mask is not there yet sits the step out: it gets no token, and is in no step
  // until continue_late(). on_mask is called by another thread whenever a mask is done.
  void allow_late_masks(std::function<void()> on_mask) { masks_.allow_late(std::move(on_mask)); }
  // Takes that back. on_mask is not called any more.
  void forbid_late_masks() { masks_.forbid_late(); }
  bool has_late() const { return masks_.has_late(); }
  // Ids of late requests whose masks are there, in the order in which they became late.
  std::vector<uint32_t> late_with_masks() { return masks_.late_with_masks(); }
  // The late request is computed again, unless it is paused. Waits for its mask. Returns false if no such
  // request is late.
  bool continue_late(uint32_t request_id);
  // Waits until the mask of the first late request is there, or this time has passed.
  void wait_for_late(std::chrono::milliseconds at_most) { masks_.wait_for_late(at_most); }
  // For replay, between schedule() and compute(): the request sits this step out. Returns false if it draws
  // no token with a mask in this step.
  bool make_late(uint32_t request_id);

  // Whether there is a request that can be computed now; paused and late ones cannot.
  bool has_work() const { return scheduler_.has_work(); }
  // Plans the next step. compute() must follow.
  Plan schedule();
  StepOutput compute(
      const Plan& plan, const DuringStep& during_step = [] {});
  StepOutput step() { return compute(schedule()); }

  std::chrono::steady_clock::time_point now() const { return now_(); }
  bool contains(uint32_t request_id) const { return sequences_.contains(request_id); }
  uint32_t num_requests() const { return static_cast<uint32_t>(sequences_.size()); }
  uint32_t num_free_blocks() const { return scheduler_.blocks().pool().num_free(); }
  const Scheduler& scheduler() const { return scheduler_; }
  const EngineCounts& counts() const { return counts_; }
  // Closes another runner's KV cache, by its descriptor. Ignores other numbers.
  void release_kv(uint32_t descriptor) {
    if (config_.scheduler.kv_sources != nullptr) config_.scheduler.kv_sources->release(descriptor);
  }
  const EngineConfig& config() const { return config_; }
  RequestLimits limits() const {
    const ModelConfig& model = model_.config();
    return {model.vocab_size, config_.max_model_len, model.is_encoder, model.num_token_types,
            model.has_classifier};
  }

 private:
  // A row whose logits are needed.
  struct WantedRow {
    Sequence* sequence;
    uint32_t row;       // of the batch
    uint32_t position;  // of its token in the sequence

    // Whether the row gives the sequence a token; otherwise it scores a token of the prompt.
    bool draws() const { return position + 1 >= sequence->num_tokens(); }
    // False if the row comes after a draft that was not drawn.
    bool counts() const { return position < sequence->num_cached_tokens + sequence->num_scheduled_tokens; }
    HeadRow for_head() const;
  };

  // A row whose hidden state goes into a vector.
  struct WantedState {
    Sequence* sequence;
    uint32_t row;  // of the batch
    uint32_t position;
  };

  struct WantedRows {
    std::vector<WantedRow> logits;
    std::vector<WantedState> states;
  };

  std::optional<RequestError> refusal_of(const Sequence& sequence) const;
  // See Batch::repeats.
  bool repeats(const Plan& plan) const;
  WantedRows build_batch(const Plan& plan);
  // The sequences that draw with a mask that is not known yet. Each has one such row, since it has no drafts.
  static std::vector<Sequence*> sequences_without_masks(std::span<const WantedRow> wanted);
  void resume(Sequence& sequence);
  // Removes the sequence from everything but sequences_.
  void finish(Sequence& sequence);
  void cut_cancelled(Batch& batch) const;
  // group has at most max_head_rows rows.
  void use_rows(std::span<const WantedRow> group, const DuringStep& during_step, StepOutput& output);
  // group has at most max_head_rows rows.
  void use_states(std::span<const WantedState> group, const DuringStep& during_step, StepOutput& output);
  ScoredToken score(Sequence& sequence, uint32_t index, std::span<const float> logits) const;
  void settle(const Plan& plan, StepOutput& output);
  FirstToken first_token(const Sequence& sequence) const;
  NewToken append_token(Sequence& sequence, uint32_t token_id);

  Model& model_;
  EngineConfig config_;
  SteadyClock now_;
  Scheduler scheduler_;
  std::unordered_map<uint32_t, Sequence> sequences_;
  SequenceMasks masks_;
  Batch batch_;
  std::vector<const Sequence*> batch_sequences_;  // the sequence of each of batch_.sequences
  std::optional<std::chrono::steady_clock::time_point> step_began_at_;  // unset between two steps
  std::vector<Sequence*> cancelled_;  // cancelled since then; the step may still write to their blocks
  EngineCounts counts_;
};

}  // namespace runnel
