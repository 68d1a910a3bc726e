#include "runner/models/kv_groups.h"

#include <algorithm>

#include "test/unit_test.h"

namespace runnel {
namespace {

// A model whose every global_every-th layer has no window.
ModelConfig mixed(uint32_t num_layers, uint32_t window, uint32_t global_every) {
  ModelConfig config{};
  config.num_layers = num_layers;
  config.local_window = window;
  config.global_every = global_every;
  return config;
}

// CHECKs that each layer has a place of its own, in a group of its window.
void check_places(const ModelConfig& config, const KvGroups& groups) {
  std::vector<std::vector<bool>> is_taken(groups.windows.size(), std::vector<bool>(groups.num_layers));
  REQUIRE(groups.places.size() == config.num_layers);
  for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
    const KvPlace& place = groups.places[layer];
    REQUIRE(place.group < groups.windows.size());
    REQUIRE(place.layer < groups.num_layers);
    CHECK(groups.windows[place.group] == layer_window(config, layer));
    CHECK_FALSE(is_taken[place.group][place.layer]);
    is_taken[place.group][place.layer] = true;
  }
}

}  // namespace

TEST_CASE("kv groups: layers that see equally many positions are one group") {
  for (const uint32_t window : {0u, 4096u}) {
    ModelConfig config{};
    config.num_layers = 32;
    config.sliding_window = window;
    const KvGroups groups = kv_groups_of(config);
    CHECK(groups.num_layers == 32);
    CHECK(groups.windows == std::vector<uint32_t>{window});
    for (uint32_t layer = 0; layer < 32; ++layer) {
      CHECK(groups.places[layer].group == 0);
      CHECK(groups.places[layer].layer == layer);
    }
  }
  CHECK(kv_groups_of(mixed(5, 1024, 6)).windows == std::vector<uint32_t>{1024});
  CHECK(kv_groups_of(mixed(5, 1024, 1)).windows == std::vector<uint32_t>{0});
}

TEST_CASE("kv groups: of models that mix, few groups hold all layers, and few places are empty") {
  struct Case {
    uint32_t num_layers, global_every, group_layers, num_groups, num_full;
  };
  // Gemma-3 1B, 4B, 12B, 27B; one layer of two; the tiny one of the tests; a kind that is rare.
  for (const auto& [num_layers, global_every, group_layers, num_groups, num_full] :
       {Case{26, 6, 4, 7, 1}, Case{34, 6, 5, 7, 1}, Case{48, 6, 8, 6, 1}, Case{62, 6, 10, 7, 1},
        Case{26, 2, 13, 2, 1}, Case{7, 6, 1, 7, 1}, Case{7, 2, 1, 7, 3}, Case{40, 40, 1, 40, 1}}) {
    CAPTURE(num_layers);
    CAPTURE(global_every);
    const ModelConfig config = mixed(num_layers, 1024, global_every);
    const KvGroups groups = kv_groups_of(config);
    CHECK(groups.num_layers == group_layers);
    CHECK(groups.windows.size() == num_groups);
    CHECK(std::ranges::count(groups.windows, 0u) == num_full);
    CHECK(std::ranges::is_sorted(groups.windows));
    check_places(config, groups);
  }
}

TEST_CASE("kv groups: if all layers have windows but not the same, the first group keeps all of a text") {
  const std::vector<uint32_t> windows = {8, 64, 8, 64, 8};
  const KvGroups groups = group_layers(windows);
  CHECK(groups.windows.front() == 0);
  CHECK(std::ranges::count(groups.windows, 64u) + 1 == 2);
  CHECK(groups.places[1].group == 0);
  CHECK(groups.windows[groups.places[0].group] == 8);
}

TEST_CASE("kv groups: tables of a sequence that gives nothing back share no block") {
  using Tables = std::vector<std::vector<uint32_t>>;
  CHECK(consecutive_tables(2, 4, 3) == Tables{{4, 5, 6}, {7, 8, 9}});
}

}  // namespace runnel
