#include "runner/ranks/shard_plan.h"

#include <algorithm>
#include <string>

#include "runner/check.h"

namespace runnel {
namespace {

// Rows of which a CPU makes a tile. Shares of whole tiles leave no tile half empty.
constexpr uint32_t kTileRows = 32;
// With so many tiles each, a share of one tile more or less is nothing.
constexpr uint32_t kManyTiles = 10;

// The share of a rank of `count` units.
RowRange share_of(uint32_t count, uint32_t num_ranks, uint32_t rank) {
  const auto begin = [&](uint64_t of) {
    return static_cast<uint32_t>((of * count + num_ranks - 1) / num_ranks);
  };
  return {begin(rank), begin(rank + 1) - begin(rank)};
}

// The share of rows, in whole tiles if there are many or if they must be.
RowRange share_of_rows(uint32_t num_rows, uint32_t num_ranks, uint32_t rank, bool whole_tiles = false) {
  if (!whole_tiles && num_rows < kManyTiles * kTileRows * num_ranks)
    return share_of(num_rows, num_ranks, rank);
  const RowRange tiles = share_of((num_rows + kTileRows - 1) / kTileRows, num_ranks, rank);
  const auto row = [&](uint32_t tile) { return std::min(tile * kTileRows, num_rows); };
  return {row(tiles.first), row(tiles.end()) - row(tiles.first)};
}

Error refusal(uint32_t num_ranks, const std::string& reason) {
  return {ExitCode::kUsage,
          "--tensor-parallel-size is " + std::to_string(num_ranks) + ", and the model " + reason + "."};
}

// Ranks that have the same KV head share its queries.
uint32_t ranks_of_kv_head(const SharedSizes& sizes, uint32_t num_ranks) {
  return std::max(1u, num_ranks / sizes.num_kv_heads);
}

}  // namespace

SharedSizes shared_sizes_of(const DecoderSpec& spec) {
  CHECK(!spec.layers.empty());
  const LayerSpec& layer = spec.layers.front();
  return {.num_heads = layer.attention.num_heads,
          .num_kv_heads = layer.attention.num_kv_heads,
          .hidden = spec.hidden_size,
          .gated = layer.ffn.width,
          .vocab = spec.head.vocab_size,
          .has_experts = layer.ffn.experts.num_experts > 0};
}

Result<void> check_shared(const SharedSizes& sizes, uint32_t num_ranks) {
  if (num_ranks > sizes.num_kv_heads && num_ranks % sizes.num_kv_heads != 0) {
    return refusal(num_ranks, "has " + std::to_string(sizes.num_kv_heads) +
                                  " KV heads; it must be at most as many, or a multiple of them");
  }
  if (ranks_of_kv_head(sizes, num_ranks) > sizes.num_heads / sizes.num_kv_heads) {
    return refusal(num_ranks, "has " + std::to_string(sizes.num_heads) +
                                  " heads; there can be no more ranks than heads");
  }
  const uint32_t narrowest =
      std::min({sizes.hidden, sizes.gated, sizes.vocab}) / (sizes.has_experts ? kTileRows : 1);
  if (num_ranks > narrowest) {
    return refusal(num_ranks, "has a matrix of " + std::to_string(narrowest) +
                                  (sizes.has_experts ? " tiles" : " rows") +
                                  "; there can be no more ranks than that");
  }
  return {};
}

Result<ShardPlan> ShardPlan::make(const DecoderSpec& spec, uint32_t num_ranks) {
  CHECK(num_ranks > 0 && num_ranks <= kMaxRanks);
  const SharedSizes sizes = shared_sizes_of(spec);
  if (const auto checked = check_shared(sizes, num_ranks); !checked) return checked.error();
  const LayerSpec& layer = spec.layers.front();
  const AttentionShape& attention = layer.attention;
  const bool has_experts = sizes.has_experts;
  const uint32_t ranks_of_head = ranks_of_kv_head(sizes, num_ranks);
  const uint32_t queries_of_head = attention.num_heads / attention.num_kv_heads;

  ShardPlan plan;
  plan.num_heads_ = attention.num_heads;
  plan.num_kv_heads_ = attention.num_kv_heads;
  plan.head_dim_ = attention.head_dim;
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    const RowRange kv_heads =
        share_of(attention.num_kv_heads, num_ranks / ranks_of_head, rank / ranks_of_head);
    const RowRange queries = share_of(kv_heads.count * queries_of_head, ranks_of_head, rank % ranks_of_head);
    plan.shards_.push_back({.heads = {kv_heads.first * queries_of_head + queries.first, queries.count},
                            .kv_heads = kv_heads,
                            .hidden = share_of_rows(spec.hidden_size, num_ranks, rank, has_experts),
                            .gated = share_of_rows(layer.ffn.width, num_ranks, rank, has_experts),
                            .vocab = share_of_rows(spec.head.vocab_size, num_ranks, rank)});
  }

  const Cut of_hidden{&Shard::hidden, spec.hidden_size};
  plan.cut(spec.embedding.table, {&Shard::vocab, spec.head.vocab_size});
  plan.cut(spec.head.weight, {&Shard::vocab, spec.head.vocab_size});
  for (const LayerSpec& each : spec.layers) {
    const Cut of_qkv{.dimension = &Shard::heads, .is_qkv = true};
    const uint32_t num_experts = std::max(1u, each.ffn.experts.num_experts);
    plan.cut(each.qkv.weight, of_qkv);
    plan.cut(each.qkv.bias, of_qkv);
    plan.cut(each.attention_output.weight, of_hidden);
    plan.cut(each.attention_output.bias, of_hidden);
    plan.cut(each.sinks, {&Shard::heads, attention.num_heads});
    const Cut of_gated{&Shard::gated, each.ffn.width, num_experts * (each.ffn.has_gate ? 2 : 1)};
    plan.cut(each.ffn.gate_up, of_gated);
    plan.cut(each.ffn.bias, of_gated);
    const Cut of_output{&Shard::hidden, spec.hidden_size, num_experts};
    plan.cut(each.ffn_output.weight, of_output);
    plan.cut(each.ffn_output.bias, of_output);
  }
  return plan;
}

void ShardPlan::cut(WeightHandle weight, const Cut& cut) {
  if (!weight) return;
  const auto index = static_cast<size_t>(weight.index);
  if (cuts_.size() <= index) cuts_.resize(index + 1);
  cuts_[index] = cut;
}

std::vector<RowRange> ShardPlan::columns_of(RowRange Shard::*dimension, uint32_t width) const {
  std::vector<RowRange> columns;
  for (const Shard& shard : shards_)
    columns.push_back({(shard.*dimension).first * width, (shard.*dimension).count * width});
  return columns;
}

std::vector<RowRange> ShardPlan::rows_of(WeightHandle weight, uint32_t rank) const {
  const auto index = static_cast<size_t>(weight.index);
  if (num_ranks() <= 1 || index >= cuts_.size() || cuts_[index].dimension == nullptr) return {};
  const Cut& cut = cuts_[index];
  const Shard& shard = shards_[rank];
  const auto of_heads = [&](uint32_t first_head, const RowRange& heads) {
    return RowRange{(first_head + heads.first) * head_dim_, heads.count * head_dim_};
  };
  if (cut.is_qkv) {
    return {of_heads(0, shard.heads), of_heads(num_heads_, shard.kv_heads),
            of_heads(num_heads_ + num_kv_heads_, shard.kv_heads)};
  }
  std::vector<RowRange> rows;
  const RowRange& share = shard.*cut.dimension;
  for (uint32_t section = 0; section < cut.num_sections; ++section)
    rows.push_back({section * cut.section_rows + share.first, share.count});
  return rows;
}

}  // namespace runnel
