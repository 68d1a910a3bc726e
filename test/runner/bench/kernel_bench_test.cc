#include "runner/bench/kernel_bench.h"

#include "cpu-runner/cpu_backend.h"
#include "test/fixtures/kernel_bench_of.h"
#include "test/unit_test.h"

namespace runnel {

// The model has rows of 64 values, 4 heads of 16 values with 2 KV heads, a feed-forward width of 96 and 100
// tokens. 32 weights take 20 bytes in Q4_1 and 34 in Q8_0, which is the type of the embedding.
TEST_CASE("bench --kernels: each operation of a step is there, with the bytes and operations that it takes") {
  struct Expected {
    const char* operation;
    uint64_t calls;
    uint64_t bytes;     // for two rows that see 20 positions
    uint64_t products;  // of a row
  };
  constexpr uint64_t kRow = 64 * 4;
  constexpr uint64_t kKvPosition = 2 * 2 * 16 * 2;
  const Expected expected[] = {
      {"embed token_embd", 1, 2 * (2 * 34 + kRow), 0},
      {"qkv attn_norm attn_q attn_k attn_v", 2, kRow + 128 * 2 * 20 + 2 * (kRow + kRow + kKvPosition),
       128 * 64},
      {"attend", 2, 2 * (kRow + 20 * kKvPosition + kRow), 20 * 2 * 64},
      {"project attn_output", 2, 64 * 2 * 20 + 2 * (kRow + 2 * kRow), 64 * 64},
      {"ffn ffn_norm ffn_gate ffn_up", 2, kRow + 192 * 2 * 20 + 2 * (kRow + 96 * 4), 192 * 64},
      {"project ffn_down", 2, 64 * 3 * 20 + 2 * (96 * 4 + 2 * kRow), 64 * 96},
      {"head output_norm token_embd", 1, kRow + 100 * 2 * 34 + 2 * (kRow + 100 * 4), 100 * 64},
  };
  const auto json = test::kernel_bench_of(make_cpu_backend({.num_threads = 1}));
  CHECK(json["positions"] == 20);
  CHECK(json["copy"]["bytes"] == 2 << 20);
  const double copy_gb_s = json["copy"]["gb_s"].get<double>();
  CHECK(json["batches"].size() == 2);
  const auto& entries = json["batches"]["2"];
  REQUIRE(entries.size() == std::size(expected) + 1);
  uint64_t step_bytes = 0;
  uint64_t step_operations = 0;
  double step_microseconds = 0;
  for (size_t i = 0; i < std::size(expected); ++i) {
    CAPTURE(expected[i].operation);
    CHECK(entries[i]["operation"] == expected[i].operation);
    CHECK(entries[i]["calls"] == expected[i].calls);
    CHECK(entries[i]["bytes"] == expected[i].bytes);
    const double microseconds = entries[i]["microseconds"].get<double>();
    CHECK(microseconds > 0);
    const double gb_s = static_cast<double>(expected[i].bytes) / microseconds / 1e3;
    CHECK(entries[i]["gb_s"].get<double>() == doctest::Approx(gb_s));
    CHECK(entries[i]["of_copy"].get<double>() == doctest::Approx(gb_s / copy_gb_s));
    const uint64_t operations = 2 * 2 * expected[i].products;
    CHECK(entries[i]["operations"] == operations);
    const double tops = static_cast<double>(operations) / microseconds / 1e6;
    CHECK(entries[i]["tops"].get<double>() == doctest::Approx(tops));
    step_bytes += expected[i].calls * expected[i].bytes;
    step_operations += expected[i].calls * operations;
    step_microseconds += static_cast<double>(expected[i].calls) * microseconds;
  }
  CHECK(entries.back()["operation"] == "all of a step");
  CHECK(entries.back()["bytes"] == step_bytes);
  CHECK(entries.back()["operations"] == step_operations);
  CHECK(entries.back()["microseconds"].get<double>() == doctest::Approx(step_microseconds));
}

TEST_CASE("bench --kernels: more positions than the model has, or a block of no size, are refused") {
  const test::TemporaryFile file(test::write_tiny_llama({}).bytes());
  std::ostringstream out;
  const auto refusal_of = [&](const EngineFlags& engine, const KernelBenchFlags& flags) {
    const Result<void> refused = kernel_bench(engine, *make_cpu_backend({.num_threads = 1}), flags, out);
    CHECK(refused.error().exit_code == ExitCode::kUsage);
    return refused.error().message;
  };
  CHECK(refusal_of({.model = file.path(), .architecture = "llama"}, {.num_positions = 513, .batches = {1}}) ==
        "--prompt is 513; the model has 512 positions.");
  CHECK(refusal_of({.model = file.path(), .architecture = "llama", .block_size = 12},
                   {.num_positions = 1, .batches = {1}}) ==
        "--block-size is 12; it must be a power of two from 8 to 256.");
  CHECK(out.str() == "");
}

}  // namespace runnel
