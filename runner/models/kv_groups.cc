#include "runner/models/kv_groups.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace runnel {
namespace {

// The layers of each kind, by their windows. Layers without a window come first, then those that see most.
using Kinds = std::map<uint32_t, std::vector<uint32_t>, decltype([](uint32_t a, uint32_t b) {
                         return a - 1 > b - 1;  // 0 is the largest
                       })>;

uint32_t num_groups(const Kinds& kinds, uint32_t num_layers) {
  uint32_t count = 0;
  for (const auto& [window, layers] : kinds)
    count += (static_cast<uint32_t>(layers.size()) + num_layers - 1) / num_layers;
  return count;
}

uint32_t layers_of_a_group(const Kinds& kinds) {
  size_t rarest = kinds.begin()->second.size();
  for (const auto& [window, layers] : kinds) rarest = std::min(rarest, layers.size());
  auto best = static_cast<uint32_t>(rarest);
  for (uint32_t size = best - 1; size > 0 && num_groups(kinds, size) <= kFewKvGroups; --size)
    if (num_groups(kinds, size) * size < num_groups(kinds, best) * best) best = size;
  return best;
}

}  // namespace

KvGroups group_layers(std::span<const uint32_t> windows) {
  Kinds kinds;
  for (uint32_t layer = 0; layer < windows.size(); ++layer) kinds[windows[layer]].push_back(layer);
  KvGroups groups{.num_layers = layers_of_a_group(kinds), .windows = {}, .places = {}};
  groups.places.resize(windows.size());
  for (const auto& [window, layers] : kinds) {
    for (uint32_t i = 0; i < layers.size(); ++i) {
      if (i % groups.num_layers == 0) groups.windows.push_back(window);
      groups.places[layers[i]] = {static_cast<uint32_t>(groups.windows.size()) - 1, i % groups.num_layers};
    }
  }
  // The first group tells what a text begins with, so among several it keeps all of it.
  if (groups.windows.size() > 1) groups.windows.front() = 0;
  return groups;
}

uint32_t layer_window(const ModelConfig& config, uint32_t layer) {
  if (config.local_window == 0) return config.sliding_window;
  return (layer + 1) % config.global_every == 0 ? 0 : config.local_window;
}

KvGroups kv_groups_of(const ModelConfig& config) {
  std::vector<uint32_t> windows;
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) windows.push_back(layer_window(config, layer));
  return group_layers(windows);
}

KvShape kv_shape_of(const ModelConfig& config, uint32_t block_size, uint32_t num_blocks,
                    uint32_t max_positions) {
  return {.num_layers = kv_groups_of(config).num_layers,
          .num_kv_heads = config.num_kv_heads,
          .head_dim = config.head_dim,
          .block_size = block_size,
          .num_blocks = num_blocks,
          .num_heads = config.num_heads,
          .max_positions = max_positions};
}

std::vector<std::vector<uint32_t>> consecutive_tables(uint32_t num_groups, uint32_t first,
                                                      uint32_t num_blocks) {
  std::vector<std::vector<uint32_t>> tables(num_groups, std::vector<uint32_t>(num_blocks));
  for (std::vector<uint32_t>& table : tables) {
    std::iota(table.begin(), table.end(), first);
    first += num_blocks;
  }
  return tables;
}

}  // namespace runnel
