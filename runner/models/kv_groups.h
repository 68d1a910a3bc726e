// How the layers of a model share the KV cache. A block of the cache has K and V of block_size tokens for the
// layers of one group, which all see equally many positions. A sequence has a table of blocks for each group.
// So it can give back what its windows have left, while layers without a window keep all.
//
// All blocks have the same number of layers, so any of them serves any group. A model whose layers all see
// equally many positions is one group. In one that mixes, a group has at most as many layers as the rarer
// kind, and the last group of a kind may lack some; of the sizes that make few groups, the one with the
// fewest lacking layers is taken.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runner/backend/backend.h"
#include "runner/backend/decoder_spec.h"
#include "runner/models/model.h"

namespace runnel {

// More groups are made only if each kind of layers is rare.
constexpr uint32_t kFewKvGroups = 8;

struct KvGroups {
  uint32_t num_layers;            // of a group, and so of a block
  std::vector<uint32_t> windows;  // positions that the layers of each group see; 0: all. Those come first
  std::vector<KvPlace> places;    // of the layers
};

// windows: of the layers.
KvGroups group_layers(std::span<const uint32_t> windows);

// The window of a layer; 0: none.
uint32_t layer_window(const ModelConfig& config, uint32_t layer);
KvGroups kv_groups_of(const ModelConfig& config);
// The cache of the model, with num_blocks blocks.
KvShape kv_shape_of(const ModelConfig& config, uint32_t block_size, uint32_t num_blocks,
                    uint32_t max_positions);

// The tables of a sequence that gives nothing back: num_blocks blocks for each group, from `first` on.
std::vector<std::vector<uint32_t>> consecutive_tables(uint32_t num_groups, uint32_t first,
                                                      uint32_t num_blocks);

}  // namespace runnel
