#include "cuda-runner/device_sampler.h"

#include <algorithm>
#include <utility>

#include "cuda-runner/device/error.h"
#include "runner/check.h"
#include "runner/sampling/gumbel.h"

namespace runnel {
namespace {

// The numbers of elements of a sampler's buffers.
struct Sizes {
  Sizes(uint32_t max_draws, uint32_t vocab_size, size_t max_list_words)
      : draws(max_draws), gathered(size_t{max_draws} * room_for_gathered(vocab_size)) {
    const size_t of_draw = DrawLists::max_words(vocab_size);
    words = std::min(max_draws * of_draw, std::max(of_draw, max_list_words));
    for (uint32_t count = 1; count <= max_draws; ++count)
      chunks = std::max(chunks, size_t{count} * num_draw_chunks(count, vocab_size));
  }

  size_t draws;
  size_t words;
  size_t chunks = 0;
  size_t gathered;
};

DrawKind kind_of(const DeviceDraw& draw) {
  if (draw.temperature < kGreedyTemperature) return DrawKind::kGreedy;
  const bool has_bounds = draw.top_k > 0 || draw.top_p < 1.0f || draw.min_p > 0.0f;
  return has_bounds ? DrawKind::kBounds : DrawKind::kNoise;
}

}  // namespace

Result<DrawnIds> DrawnIds::allocate(uint32_t max_draws) {
  DrawnIds ids;
  const Result<void> allocated = runnel::allocate_all("drawn ids", Wanted{ids.ids_, max_draws});
  if (!allocated) return allocated.error();
  return ids;
}

void DrawnIds::fetch(const DeviceBuffer<uint32_t>& drawn, uint32_t count, Stream& stream) {
  stream.download(ids_.span().first(count), drawn, 0);
  fetch_.record(stream);
  count_ = count;
}

std::optional<uint32_t> DrawnIds::at(uint32_t draw) {
  CHECK(draw < count_);
  fetch_.wait();
  const uint32_t id = ids_.span()[draw];
  return id == kNotFinite ? std::nullopt : std::optional(id);
}

Result<DeviceSampler> DeviceSampler::allocate(uint32_t max_draws, uint32_t vocab_size,
                                              size_t max_list_words) {
  DeviceSampler sampler(vocab_size);
  const Sizes sizes(max_draws, vocab_size, max_list_words);
  const Result<void> allocated =
      allocate_all("token sampling", Wanted{sampler.draws_, sizes.draws}, Wanted{sampler.words_, sizes.words},
                   Wanted{sampler.drawn_, sizes.draws}, Wanted{sampler.firsts_, sizes.chunks},
                   Wanted{sampler.winners_, sizes.chunks}, Wanted{sampler.bins_, sizes.chunks * kDrawBins},
                   Wanted{sampler.counts_, sizes.draws}, Wanted{sampler.gathered_logits_, sizes.gathered},
                   Wanted{sampler.gathered_ids_, sizes.gathered}, Wanted{sampler.host_draws_, sizes.draws},
                   Wanted{sampler.host_words_, sizes.words});
  if (!allocated) return allocated.error();
  return sampler;
}

uint64_t DeviceSampler::bytes(uint32_t max_draws, uint32_t vocab_size) {
  const Sizes sizes(max_draws, vocab_size, kMaxListWords);
  return device_bytes(sizes.draws, sizeof(DeviceDraw)) + device_bytes(sizes.words, sizeof(uint32_t)) +
         device_bytes(sizes.draws, sizeof(uint32_t)) + 2 * device_bytes(sizes.chunks, sizeof(Rank)) +
         device_bytes(sizes.chunks * kDrawBins, sizeof(DrawBin)) +
         device_bytes(sizes.draws, sizeof(GatheredCount)) + device_bytes(sizes.gathered, sizeof(double)) +
         device_bytes(sizes.gathered, sizeof(uint32_t));
}

DrawWorkspace DeviceSampler::workspace() {
  return {firsts_.view(), winners_.view(),         bins_.view(),
          counts_.view(), gathered_logits_.view(), gathered_ids_.view()};
}

DeviceDraw DeviceSampler::device_draw(uint32_t row, const HeadRow& of) const {
  const SamplingParams& params = of.draw->params;
  DeviceDraw draw{.seed = params.seed,
                  .kind = DrawKind::kNone,
                  .row = row,
                  .batch_row = of.row,
                  .temperature = params.temperature,
                  .top_p = params.top_p,
                  .min_p = params.min_p,
                  .repetition_penalty = params.repetition_penalty,
                  .presence_penalty = params.presence_penalty,
                  .frequency_penalty = params.frequency_penalty,
                  .top_k = params.top_k < vocab_size_ ? params.top_k : 0,
                  .first_word = 0,
                  .num_bit_words = 0,
                  .num_changed = 0,
                  .num_biased = 0};
  draw.kind = kind_of(draw);
  return draw;
}

void DeviceSampler::put(uint32_t place, const DeviceDraw& draw) {
  CHECK(place < host_draws_.span().size());
  DeviceDraw& held = host_draws_.span()[place];
  if (place < num_sent_ && held == draw) return;
  sent_.wait();
  num_sent_ = std::min(num_sent_, place);
  held = draw;
}

void DeviceSampler::send_draws(uint32_t end, Stream& stream) {
  if (num_sent_ >= end) return;
  stream.upload(draws_, num_sent_, host_draws_.part(num_sent_, end - num_sent_));
  num_sent_ = end;
  sent_.record(stream);
}

void DeviceSampler::send(std::span<const HeadRow> rows, Stream& stream) {
  for (uint32_t row = 0; row < rows.size(); ++row) {
    CHECK(rows[row].draw && is_plain(*rows[row].draw));
    put(row, device_draw(row, rows[row]));
  }
  send_draws(static_cast<uint32_t>(rows.size()), stream);
}

void DeviceSampler::launch(std::span<const HeadRow> rows, Global<const float> logits,
                           Global<const uint32_t> positions, DrawnIds& ids, Stream& stream) {
  uint32_t first = 0;  // of the draws that are not launched yet
  uint32_t count = 0;
  uint32_t num_words = 0;  // of their lists
  for (uint32_t row = 0; row < rows.size(); ++row) {
    if (!rows[row].draw) continue;
    const Draw& draw = *rows[row].draw;
    const size_t bound = lists_.bound(draw);
    if (bound > words_.size() - num_words) {
      launch_part(first, count, num_words, logits, positions, stream);
      stream.synchronize();
      first = count;
      num_words = 0;
    }
    DeviceDraw device = device_draw(row, rows[row]);
    if (bound > 0) sent_.wait();
    num_words += lists_.pack(draw, host_words_.span(), num_words, device);
    put(count++, device);
  }
  if (count == 0) return;
  launch_part(first, count, num_words, logits, positions, stream);
  ids.fetch(drawn_, count, stream);
  num_drawn_ = count;
}

void DeviceSampler::launch_part(uint32_t first, uint32_t end, uint32_t num_words, Global<const float> logits,
                                Global<const uint32_t> positions, Stream& stream) {
  const uint32_t count = end - first;
  const PinnedPart<DeviceDraw> draws = host_draws_.part(first, count);
  send_draws(end, stream);
  if (num_words > 0) {
    stream.upload(words_, 0, host_words_.part(0, num_words));
    sent_.record(stream);
  }
  const bool has_bounds =
      std::ranges::find(draws.values, DrawKind::kBounds, &DeviceDraw::kind) != draws.values.end();
  const DrawInputs inputs{std::as_const(draws_).view().from(first, count), std::as_const(words_).view(),
                          logits, positions, vocab_size_};
  expect_success(
      runnel::draw(inputs, workspace(), count, has_bounds, drawn_.view().from(first, count), stream.get()),
      "drawing tokens");
}

}  // namespace runnel
