#include "test/exactness/watched_model.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runner/check.h"

namespace runnel::exactness {

void WatchedModel::expect(const Plan& plan) {
  request_ids_.clear();
  for (const Sequence* sequence : plan.sequences) request_ids_.push_back(sequence->request_id);
}

void WatchedModel::forward(Batch& batch, const BetweenLayers& between_layers) {
  CHECK(batch.sequences.size() == request_ids_.size());
  places_.clear();
  for (size_t i = 0; i < batch.sequences.size(); ++i) {
    const BatchSequence& sequence = batch.sequences[i];
    for (uint32_t row = 0; row < sequence.num_rows; ++row)
      places_.push_back({request_ids_[i], sequence.first_position + row});
  }
  CHECK(places_.size() == batch.num_rows());
  model_.forward(batch, between_layers);
}

LogitRows& WatchedModel::logits(std::span<const HeadRow> rows) {
  if (!reads_logits_) return model_.logits(rows);
  std::vector<HeadRow> read(rows.begin(), rows.end());
  for (HeadRow& row : read) row.wants_logits = true;
  LogitRows& logits = model_.logits(read);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const std::span<const float> row = logits.row(i);
    hashes_[places_.at(rows[i].row)] = XXH64(row.data(), row.size_bytes(), 0);
  }
  return logits;
}

}  // namespace runnel::exactness
