// A request inside the runner: its tokens so far, how the next one is drawn, and where its KV lies.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/pooling.h"
#include "runner/speculation.h"
#include "runner/token_mask.h"

namespace runnel {

// What a request may list; sequence_from checks it.
constexpr uint32_t kMaxLogitBiases = 1024;
constexpr uint32_t kMaxMaskedIds = 1024;  // allowed ones, and banned ones
constexpr uint32_t kMaxStopIds = 64;

struct LogitBias {
  uint32_t token_id = 0;
  float bias = 0.0f;
};

// Applied in this order: masks, logit bias, repetition penalty, presence and frequency penalty, temperature,
// top_k, top_p, min_p, draw. Limits: proto/runner.proto.
struct SamplingParams {
  float temperature = 1.0f;         // 0: the most likely token, ties to the lowest id
  uint32_t top_k = 0;               // 0: all
  float top_p = 1.0f;               // 1: all
  float min_p = 0.0f;               // 0: all
  float repetition_penalty = 1.0f;  // 1: off; over prompt and generated tokens
  float presence_penalty = 0.0f;    // 0: off; over generated tokens
  float frequency_penalty = 0.0f;   // 0: off; over generated tokens, each time
  std::vector<LogitBias> logit_bias = {};
  std::vector<uint32_t> allowed_ids = {};  // empty: all
  std::vector<uint32_t> banned_ids = {};   // also of those allowed
  uint64_t seed = 0;
};

// Stands in a block table for a block that was given back because its positions are seen no more.
constexpr uint32_t kNoBlock = std::numeric_limits<uint32_t>::max();

// Where the chain of a sequence's full blocks stands; the next one is remembered as what follows it.
struct BlockChain {
  std::optional<uint64_t> hash;  // of the last one; of the salt, if there is one, before the first
  uint64_t content = 0;          // number of the last one's content; 0: no block is full
};

enum class SequenceStatus { kWaiting, kRunning, kPaused, kFinished };
enum class FinishReason { kNone, kStopId, kMaxTokens };

struct Sequence {
  uint32_t request_id = 0;
  std::vector<uint32_t> token_ids;  // prompt, then generated; in a step, drafts at the end
  uint32_t num_prompt_tokens =
      0;                    // of the original prompt; tokens emitted by earlier runners are generated ones
  uint32_t max_tokens = 0;  // generated tokens in all
  uint32_t min_tokens = 0;  // generated tokens before which none of stop_ids is drawn
  std::vector<uint32_t> stop_ids;
  SamplingParams sampling;
  std::optional<uint32_t> top_logprobs;     // unset: no log-probabilities
  std::optional<uint32_t> prompt_logprobs;  // the same for the prompt's own tokens
  uint32_t num_scored_tokens = 1;   // leading prompt tokens that were told of; of the first there is nothing
  std::string cache_salt;           // shares blocks only with its like
  std::shared_ptr<TokenMask> mask;  // by a grammar; none: all may be drawn
  // Of one that is asked for a vector: it ends with that, and draws nothing. Its max_tokens is 1, as its last
  // token too has a place in the cache.
  std::optional<PooledStates> pooled;

  SequenceStatus status = SequenceStatus::kWaiting;
  uint32_t num_cached_tokens = 0;     // leading tokens whose K and V are stored
  uint32_t num_scheduled_tokens = 0;  // tokens after those that this step computes, drafts included
  uint32_t num_drafts = 0;            // guessed and not drawn yet, the last of token_ids; 0 between steps
  std::vector<uint32_t> block_table;  // KV block of each block_size tokens, or kNoBlock
  BlockChain chain;                   // of the blocks that its cached tokens fill
  Speculation speculation;
  // What MaskFiller has found for the draw of this step. Empty: no mask; it has not failed.
  std::vector<uint32_t> allowed_bits;
  std::string mask_failure;
  bool has_begun = false;    // a step has computed a part of it
  bool was_resumed = false;  // after a pause

  // For FirstOutput: when it was taken, when its first rows were scheduled, and how many rows it was spared.
  std::chrono::steady_clock::time_point accepted_at{};
  std::optional<std::chrono::steady_clock::time_point> started_at;
  uint32_t num_reused_tokens = 0;
  bool has_output = false;
  bool is_cancelled = false;  // it ends with the step that is under way

  // Without drafts.
  uint32_t num_tokens() const { return static_cast<uint32_t>(token_ids.size()) - num_drafts; }
  uint32_t num_generated() const { return num_tokens() - num_prompt_tokens; }
  void drop_drafts() {
    num_scheduled_tokens -= num_drafts;
    token_ids.resize(num_tokens());
    num_drafts = 0;
  }
  // Whether the token of this index is still to be told of, by the row before it.
  bool wants_score(uint32_t index) const {
    return prompt_logprobs && index >= num_scored_tokens && index < num_prompt_tokens;
  }
  bool wants_scores() const { return wants_score(num_scored_tokens); }
  // Whether rows whose K and V are stored already have to be computed all the same.
  bool needs_all_rows() const { return wants_scores() || (pooled && pooled->wants_earlier()); }
};

}  // namespace runnel
