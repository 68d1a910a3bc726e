#include "cuda-runner/device_sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "cuda-runner/device/error.h"
#include "runner/check.h"
#include "runner/sampling/id_bits.h"

namespace runnel {
namespace {

// The words that the lists of one draw may have: the limits of sequence_from, and each id once among those
// that were seen.
size_t max_words(uint32_t vocab_size) {
  constexpr size_t kListedWords = 2 * kMaxMaskedIds + kMaxStopIds + 2 * kMaxLogitBiases;
  return kListedWords + num_id_words(vocab_size) + size_t{2} * vocab_size;
}

}  // namespace

Result<DeviceSampler> DeviceSampler::allocate(uint32_t max_draws, uint32_t vocab_size) {
  DeviceSampler sampler;
  sampler.vocab_size_ = vocab_size;
  sampler.counts_.resize(vocab_size);
  const size_t num_words = max_draws * max_words(vocab_size);
  const Result<void> allocated =
      allocate_all("token sampling", Wanted{sampler.candidates_, size_t{max_draws} * vocab_size},
                   Wanted{sampler.draws_, max_draws}, Wanted{sampler.words_, num_words},
                   Wanted{sampler.drawn_, max_draws}, Wanted{sampler.host_draws_, max_draws},
                   Wanted{sampler.host_words_, num_words}, Wanted{sampler.host_drawn_, max_draws});
  if (!allocated) return allocated.error();
  return sampler;
}

uint64_t DeviceSampler::bytes(uint32_t max_draws, uint32_t vocab_size) {
  return device_bytes(size_t{max_draws} * vocab_size, sizeof(double)) +
         device_bytes(max_draws, sizeof(DeviceDraw)) +
         device_bytes(max_draws * max_words(vocab_size), sizeof(uint32_t)) +
         device_bytes(max_draws, sizeof(uint32_t));
}

void DeviceSampler::launch(std::span<const HeadRow> rows, Global<const float> logits, Stream& stream) {
  uint32_t count = 0;
  num_words_ = 0;
  for (uint32_t row = 0; row < rows.size(); ++row) {
    if (!rows[row].draw) continue;
    CHECK(count < host_draws_.span().size());
    host_draws_.span()[count++] = add(*rows[row].draw, row);
  }
  if (count == 0) return;
  stream.upload(draws_, 0, host_draws_.part(0, count));
  if (num_words_ > 0) stream.upload(words_, 0, host_words_.part(0, num_words_));
  const DrawInputs inputs{std::as_const(draws_).view(), std::as_const(words_).view(), logits,
                          candidates_.view(), vocab_size_};
  expect_success(runnel::draw(inputs, count, drawn_.view(), stream.get()), "drawing tokens");
  stream.download(host_drawn_.span().first(count), drawn_, 0);
}

void DeviceSampler::read(std::span<const HeadRow> rows, std::vector<std::optional<uint32_t>>& drawn) const {
  drawn.assign(rows.size(), std::nullopt);
  auto next_id = host_drawn_.span().begin();
  for (size_t row = 0; row < rows.size(); ++row) {
    if (!rows[row].draw) continue;
    if (*next_id != kNotFinite) drawn[row] = *next_id;
    ++next_id;
  }
}

DeviceDraw DeviceSampler::add(const Draw& draw, uint32_t row) {
  const SamplingParams& params = draw.params;
  DeviceDraw device{.seed = params.seed,
                    .row = row,
                    .position = static_cast<uint32_t>(draw.token_ids.size()),
                    .temperature = params.temperature,
                    .top_p = params.top_p,
                    .min_p = params.min_p,
                    .repetition_penalty = params.repetition_penalty,
                    .presence_penalty = params.presence_penalty,
                    .frequency_penalty = params.frequency_penalty,
                    .top_k = params.top_k,
                    .first_word = num_words_,
                    .num_allowed = static_cast<uint32_t>(params.allowed_ids.size()),
                    .num_allowed_bits = static_cast<uint32_t>(draw.allowed_bits.size()),
                    .num_masked = static_cast<uint32_t>(params.banned_ids.size() + draw.masked_ids.size()),
                    .num_biases = static_cast<uint32_t>(params.logit_bias.size()),
                    .num_seen = 0};
  add_words(params.allowed_ids);
  add_words(draw.allowed_bits);
  add_words(params.banned_ids);
  add_words(draw.masked_ids);
  for (const LogitBias& entry : params.logit_bias)
    add_words(std::array{entry.token_id, std::bit_cast<uint32_t>(entry.bias)});
  device.num_seen = add_seen(draw);
  return device;
}

void DeviceSampler::add_words(std::span<const uint32_t> words) {
  CHECK(words.size() <= host_words_.span().size() - num_words_);
  std::ranges::copy(words, host_words_.span().subspan(num_words_).begin());
  num_words_ += static_cast<uint32_t>(words.size());
}

uint32_t DeviceSampler::add_seen(const Draw& draw) {
  const SamplingParams& params = draw.params;
  const bool is_repetition_penalised = params.repetition_penalty != 1.0f;
  if (!is_repetition_penalised && params.presence_penalty == 0.0f && params.frequency_penalty == 0.0f)
    return 0;
  constexpr uint32_t kAdded = 0xffffffff;
  const std::span<const uint32_t> generated = draw.token_ids.subspan(draw.num_prompt_tokens);
  const std::span<const uint32_t> seen = is_repetition_penalised ? draw.token_ids : generated;
  for (const uint32_t id : generated) ++counts_[id];
  uint32_t num_seen = 0;
  for (const uint32_t id : seen) {
    if (counts_[id] == kAdded) continue;
    add_words(std::array{id, counts_[id]});
    counts_[id] = kAdded;
    ++num_seen;
  }
  for (const uint32_t id : seen) counts_[id] = 0;
  return num_seen;
}

}  // namespace runnel
