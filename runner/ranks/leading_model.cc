#include "runner/ranks/leading_model.h"

#include <algorithm>
#include <optional>

#include "runner/check.h"

namespace runnel {
namespace {

// The first word of what the leader tells.
enum Told : uint32_t {
  kForward,  // a batch
  kGoOn,     // the number of sequences that the batch still has: between two layers
  kLogits,   // rows of the batch
};

// Words of a message, in the order in which they were written.
class Words {
 public:
  explicit Words(std::vector<uint32_t> words) : words_(std::move(words)) {}

  uint32_t next() {
    CHECK(at_ < words_.size());
    return words_[at_++];
  }
  // A list with its length before it.
  std::vector<uint32_t> next_list() {
    const uint32_t length = next();
    CHECK(length <= words_.size() - at_);
    const auto begin = words_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += length;
    return {begin, begin + length};
  }
  std::span<const uint32_t> rest() const { return std::span(words_).subspan(at_); }

 private:
  std::vector<uint32_t> words_;
  size_t at_ = 0;
};

void add_list(std::vector<uint32_t>& words, std::span<const uint32_t> list) {
  words.push_back(static_cast<uint32_t>(list.size()));
  words.insert(words.end(), list.begin(), list.end());
}

std::vector<uint32_t> words_of(const Batch& batch) {
  std::vector<uint32_t> words = {kForward};
  add_list(words, batch.token_ids);
  add_list(words, batch.positions);
  add_list(words, batch.types);
  words.push_back(static_cast<uint32_t>(batch.sequences.size()));
  for (const BatchSequence& sequence : batch.sequences) {
    words.insert(words.end(), {sequence.first_row, sequence.num_rows, sequence.first_position,
                               static_cast<uint32_t>(sequence.block_tables.size())});
    for (const std::vector<uint32_t>& table : sequence.block_tables) add_list(words, table);
  }
  return words;
}

// A batch with the block tables that it refers to.
struct OwnBatch {
  explicit OwnBatch(Words& words) {
    batch.token_ids = words.next_list();
    batch.positions = words.next_list();
    batch.types = words.next_list();
    batch.sequences.resize(words.next());
    tables.resize(batch.sequences.size());
    for (size_t i = 0; i < tables.size(); ++i) {
      BatchSequence& sequence = batch.sequences[i];
      sequence.first_row = words.next();
      sequence.num_rows = words.next();
      sequence.first_position = words.next();
      tables[i].resize(words.next());
      for (std::vector<uint32_t>& table : tables[i]) table = words.next_list();
      sequence.block_tables = tables[i];
    }
  }

  Batch batch;
  std::vector<std::vector<std::vector<uint32_t>>> tables;
};

}  // namespace

void LeadingModel::forward(Batch& batch, const BetweenLayers& between_layers) {
  ranks_.tell(words_of(batch));
  model_->forward(batch, [&](Batch& left) {
    between_layers(left);
    const uint32_t words[] = {kGoOn, static_cast<uint32_t>(left.sequences.size())};
    ranks_.tell(words);
  });
}

LogitRows& LeadingModel::logits(std::span<const HeadRow> rows) {
  std::vector<uint32_t> words = {kLogits};
  for (const HeadRow& row : rows) words.push_back(row.row);
  ranks_.tell(words);
  return model_->logits(rows);
}

void follow(Model& model, RankGroup& ranks) {
  // Between two layers the leader can end too; what is left of the pass is computed by nobody then.
  bool is_over = false;
  while (!is_over) {
    std::optional<std::vector<uint32_t>> heard = ranks.hear();
    if (!heard) return;
    Words words(*std::move(heard));
    if (const uint32_t told = words.next(); told == kForward) {
      OwnBatch own(words);
      model.forward(own.batch, [&](Batch& batch) {
        std::optional<std::vector<uint32_t>> go_on = ranks.hear();
        is_over = !go_on;
        if (is_over) return batch.keep_first(0);
        Words left(*std::move(go_on));
        CHECK(left.next() == kGoOn);
        batch.keep_first(left.next());
      });
    } else {
      CHECK(told == kLogits);
      std::vector<HeadRow> rows;
      for (const uint32_t row : words.rest()) rows.push_back({.row = row});
      model.logits(rows);
    }
  }
}

}  // namespace runnel
