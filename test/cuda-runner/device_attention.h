// The attention of some rows of a step on the device, and what it should be.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "cuda-runner/attend_plan.h"
#include "cuda-runner/kernels/attend.h"
#include "test/cuda-runner/device_ready.h"
#include "test/cuda-runner/device_sequences.h"
#include "test/fixtures/attention_reference.h"
#include "test/unit_test.h"

namespace runnel::test {

// The layer of the cache that attention reads.
inline constexpr uint32_t kAttendLayer = 1;
inline constexpr uint32_t kMaxAttendPositions = 1024;
// Places in the workspace: for every split of a step, or for none, so that no row is cut.
inline constexpr uint32_t kEnoughPlaces = 1024;
inline constexpr uint32_t kNoPlaces = 0;
// Few rows are enough for tiles.
inline constexpr uint32_t kMinTileBlocks = 4;

// The pieces of a step's attention on the device.
struct DeviceWork {
  // is_apart: the list has queries apart, as few pieces are planned; else as many are.
  DeviceWork(const TestStream& stream, const AttentionShape& shape, uint32_t max_rows, uint32_t max_places,
             bool is_apart = false)
      : plan_shape{shape.window,
                   attend_groups(shape),
                   is_apart ? shape.num_heads : attend_groups(shape),
                   shape.num_kv_heads,
                   attend_tile_rows(shape),
                   max_rows,
                   max_places,
                   kMinTileBlocks},
        words(stream, AttendPlan::max_words(plan_shape)),
        results(stream, size_t{max_places} * shape.num_heads * (2 + shape.head_dim)),
        arrivals(stream, std::vector<uint32_t>(size_t{max_rows} * shape.num_kv_heads +
                                               size_t{max_places} * shape.num_heads)) {}

  AttendWork plan(const std::vector<RowPlace>& rows) const {
    std::vector<uint32_t> positions, sequences;
    for (const RowPlace& row : rows) {
      positions.push_back(row.position);
      sequences.push_back(row.sequence);
    }
    AttendPlan plan(plan_shape);
    const auto made = plan.make(positions, sequences);
    std::vector<uint32_t> all(made.begin(), made.end());
    all.resize(AttendPlan::max_words(plan_shape));
    words.set(all);
    return {words.read_view(), AttendPlan::max_pieces(plan_shape), plan.has_pieces(), plan.num_tiles()};
  }

  // Of the list that is on the device.
  bool is_apart() const { return words.values()[3] == 1; }

  AttendWorkspace workspace() const { return {results.view(), arrivals.view()}; }
  void require_no_arrivals() const {
    REQUIRE(arrivals.values() == std::vector<uint32_t>(arrivals.values().size()));
  }

  AttendPlanShape plan_shape;
  DeviceArray<uint32_t> words;
  DeviceArray<float> results;
  DeviceArray<uint32_t> arrivals;
};

// Queries of some rows of a step, and the results of attention for them.
struct Attention {
  Attention(const TestStream& stream_of, const DeviceSequences& sequences_of, const AttentionShape& shape_of,
            const std::vector<RowPlace>& rows_of, std::mt19937& rng)
      : stream(stream_of),
        sequences(sequences_of),
        shape(shape_of),
        rows(rows_of),
        queries(random_floats(rows_of.size() * shape_of.num_heads * shape_of.head_dim, rng, 2.0f)),
        sinks(random_floats(shape_of.num_heads, rng, 3.0f)),
        device_sinks(stream_of, sinks) {}

  uint32_t width() const { return shape.num_heads * shape.head_dim; }
  std::span<const float> query(size_t row, uint32_t head) const {
    return std::span(queries).subspan(row * width() + head * shape.head_dim, shape.head_dim);
  }

  // Computes `count` rows, from row `first` on, in a step of their own.
  std::unique_ptr<DeviceReady> on_device(size_t first, uint32_t count, uint32_t max_places) const {
    return on_device(first, count, max_places, count);
  }
  // The same, with num_kept of the rows left when attention is launched. The values of the others stay
  // `lost`.
  std::unique_ptr<DeviceReady> on_device(size_t first, uint32_t count, uint32_t max_places, uint32_t num_kept,
                                         float lost = NAN) const {
    const std::vector<RowPlace> some(rows.begin() + first, rows.begin() + first + count);
    const DeviceStep step = sequences.step(some);
    const DeviceWork work(stream, shape, count, max_places, is_apart);
    const AttendWork planned = work.plan(some);
    REQUIRE(work.is_apart() == (is_apart && attend_groups(shape) < shape.num_heads));
    std::vector<float> qkv(size_t{count} * sequences.qkv_stride());
    for (uint32_t row = 0; row < count; ++row) {
      const auto from = queries.begin() + (first + row) * width();
      std::copy_n(from, width(), qkv.begin() + row * sequences.qkv_stride());
    }
    const DeviceArray<float> in(stream, qkv);
    auto out = std::make_unique<DeviceReady>(stream, width(), count);
    out->values.set(std::vector<float>(size_t{count} * out->stride, lost));
    require_success(attend({shape,
                            kAttendLayer,
                            num_kept,
                            step.view(),
                            planned,
                            {in.view(), sequences.qkv_stride()},
                            sequences.kv(),
                            /*rotates=*/false,
                            {},
                            has_sinks,
                            device_sinks.read_view()},
                           kMaxAttendPositions, work.workspace(), out->view(), stream));
    work.require_no_arrivals();
    return out;
  }

  uint32_t num_tiles() const {
    return DeviceWork(stream, shape, static_cast<uint32_t>(rows.size()), kNoPlaces).plan(rows).num_tiles;
  }

  std::vector<float> wanted(size_t row, uint32_t head) const {
    const auto seen = sequences.stored_and_seen_by(rows[row], head / (shape.num_heads / shape.num_kv_heads));
    return reference::attend(query(row, head), seen.keys, seen.values,
                             sequences.first_seen(rows[row].position), shape.scale, shape.softcap,
                             has_sinks ? &sinks[head] : nullptr);
  }
  reference::Ready wanted_rows() const {
    std::vector<float> all;
    for (size_t row = 0; row < rows.size(); ++row) {
      for (uint32_t head = 0; head < shape.num_heads; ++head) {
        const std::vector<float> one = wanted(row, head);
        all.insert(all.end(), one.begin(), one.end());
      }
    }
    return reference::ready(all, width());
  }

  const TestStream& stream;
  const DeviceSequences& sequences;
  AttentionShape shape;
  std::vector<RowPlace> rows;
  std::vector<float> queries;
  bool has_sinks = false;
  bool is_apart = false;     // as of DeviceWork
  std::vector<float> sinks;  // of the heads of queries
  DeviceArray<float> device_sinks;
};

}  // namespace runnel::test
