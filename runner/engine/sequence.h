// A request inside the runner: its tokens so far, how the next one is drawn, and where its K and V lie.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/engine/pooling.h"
#include "runner/engine/speculation.h"
#include "runner/sampling/mask_job.h"
#include "runner/sampling/token_mask.h"

namespace runnel {

// Limits of the lists in a request; sequence_from checks them.
constexpr uint32_t kMaxLogitBiases = 1024;
constexpr uint32_t kMaxMaskedIds = 1024;  // for allowed ids, and for banned ids
constexpr uint32_t kMaxStopIds = 64;

struct LogitBias {
  uint32_t token_id = 0;
  float bias = 0.0f;
};

// Applied in this order: masks, logit bias, repetition penalty, presence and frequency penalty, temperature,
// top_k, top_p, min_p, draw. proto/runner.proto has the limits.
struct SamplingParams {
  float temperature = 1.0f;         // 0: the most likely token, ties to the lowest id
  uint32_t top_k = 0;               // 0: all
  float top_p = 1.0f;               // 1: all
  float min_p = 0.0f;               // 0: all
  float repetition_penalty = 1.0f;  // 1: off; for prompt and generated tokens
  float presence_penalty = 0.0f;    // 0: off; for generated tokens
  float frequency_penalty = 0.0f;   // 0: off; for generated tokens, each time
  std::vector<LogitBias> logit_bias = {};
  std::vector<uint32_t> allowed_ids = {};  // empty: all
  std::vector<uint32_t> banned_ids = {};   // wins over allowed_ids
  uint64_t seed = 0;
};

// In a block table, stands for a block that no later row sees, and that was given back or never taken.
constexpr uint32_t kNoBlock = std::numeric_limits<uint32_t>::max();

// The end of the chain of a sequence's full blocks. The next full block is remembered as its successor.
struct BlockChain {
  std::optional<uint64_t> hash;  // of the last full block; before the first, of the salt if there is one
  uint64_t content = 0;          // number of the last full block's content; 0: no block is full
};

enum class SequenceStatus { kWaiting, kRunning, kPaused, kFinished };
enum class FinishReason { kNone, kStopId, kMaxTokens };

struct Sequence {
  uint32_t request_id = 0;
  uint64_t serial = 0;              // see BatchSequence; the engine gives it
  std::vector<uint32_t> token_ids;  // prompt, then generated ones; during a step, drafts at the end
  // Of the original prompt; tokens emitted by earlier runners count as generated.
  uint32_t num_prompt_tokens = 0;
  uint32_t max_tokens = 0;  // generated tokens in all
  uint32_t min_tokens = 0;  // none of stop_ids is drawn before this many generated tokens
  std::vector<uint32_t> stop_ids;
  SamplingParams sampling;
  std::optional<uint32_t> top_logprobs;     // unset: no log-probabilities
  std::optional<uint32_t> prompt_logprobs;  // the same for the prompt's own tokens
  uint32_t num_scored_tokens = 1;   // leading prompt tokens that need no score any more; the first has none
  std::string cache_salt;           // blocks are shared only among sequences with the same salt
  std::vector<uint32_t> kv_from;    // other runners' caches that may have its blocks, see KvSources
  std::shared_ptr<TokenMask> mask;  // of a grammar; null: all tokens may be drawn
  // Set if the request asks for a vector. The sequence ends with the vector and draws nothing. Its max_tokens
  // is 1, since its last token also has a place in the cache.
  std::optional<PooledStates> pooled;
  uint32_t second_type_from = 0;  // index of the first token of the second type; 0: there is none
  // Whether each row sees all tokens, as in an encoder: one step computes all rows, and no other sequence can
  // use their K and V.
  bool sees_ahead = false;

  SequenceStatus status = SequenceStatus::kWaiting;
  uint32_t num_cached_tokens = 0;  // leading tokens whose K and V are stored
  // Tokens after num_cached_tokens that this step computes, drafts included.
  uint32_t num_scheduled_tokens = 0;
  uint32_t num_drafts = 0;  // guessed tokens that are not drawn yet, the last of token_ids; 0 between steps
  // For each group of layers, the KV block of each block_size tokens, or kNoBlock. Empty: it holds no blocks.
  std::vector<std::vector<uint32_t>> block_tables;
  BlockChain chain;  // of the blocks that the cached tokens fill
  Speculation speculation;
  std::shared_ptr<MaskJob> mask_job;  // null before the first draw with a mask
  bool has_mask_job = false;          // mask_job is of the next draw, was started and not taken
  // What take_masks found. Empty: there is no mask or none is known, or no failure.
  NextMasks next_masks;
  std::string mask_failure;
  bool mask_is_late = false;  // it is in no step until its mask is there
  bool is_held = false;       // by pause()
  bool has_begun = false;     // a step has computed a part of the sequence
  bool was_resumed = false;   // after a pause

  // For FirstOutput: when the request was accepted, when its first rows were scheduled, and how many rows it
  // did not compute because they were cached.
  std::chrono::steady_clock::time_point accepted_at{};
  std::optional<std::chrono::steady_clock::time_point> started_at;
  uint32_t num_reused_tokens = 0;
  bool has_output = false;
  bool is_cancelled = false;  // the sequence ends with the step that is under way

  bool holds_blocks() const { return !block_tables.empty(); }
  // Tokens without drafts.
  uint32_t num_tokens() const { return static_cast<uint32_t>(token_ids.size()) - num_drafts; }
  uint32_t num_generated() const { return num_tokens() - num_prompt_tokens; }
  void drop_drafts() {
    num_scheduled_tokens -= num_drafts;
    token_ids.resize(num_tokens());
    num_drafts = 0;
  }
  // Whether the token of this index still needs a score, which the row before it gives.
  bool wants_score(uint32_t index) const {
    return prompt_logprobs && index >= num_scored_tokens && index < num_prompt_tokens;
  }
  bool wants_scores() const { return wants_score(num_scored_tokens); }
  // Whether rows must be computed even if their K and V are stored.
  bool needs_all_rows() const { return wants_scores() || (pooled && pooled->wants_earlier()); }
};

}  // namespace runnel
