#include "runner/commands/flag_values.h"

#include "test/unit_test.h"

namespace runnel {
namespace {

template <typename T>
std::string refusal_of(const Result<T>& value) {
  if (value) return "accepted";
  CHECK(value.error().exit_code == ExitCode::kUsage);
  return value.error().message;
}

TEST_CASE("flags: a whole number has digits alone, as many as 64 bits hold") {
  for (const char* text : {"0", "18446744073709551615"}) CHECK(check_whole_number(text).ok());
  for (const std::string text : {"", "-1", "+1", " 1", "1.5", "1e3", "18446744073709551616"})
    CHECK(refusal_of(check_whole_number(text)) == text + " is not a whole number of 64 bits");
}

TEST_CASE("flags: a number of blocks is at least one, or -1 for any") {
  CHECK(*kvcache_blocks_from("-1") == 0);
  CHECK(*kvcache_blocks_from("1") == 1);
  CHECK(*kvcache_blocks_from("4294967295") == 4294967295);
  for (const std::string text : {"", "0", "-2", "+1", "1.5", "4294967296"})
    CHECK(refusal_of(kvcache_blocks_from(text)) ==
          text + " is neither -1 nor a whole number from 1 to 4294967295");
}

TEST_CASE("flags: a GPU has a number, and the names of the CPU lead to cpu-runner") {
  CHECK(*gpu_number_from("0") == 0);
  CHECK(*gpu_number_from("255") == 255);
  for (const std::string text : {"-1", "cpu"})
    CHECK(refusal_of(gpu_number_from(text)).starts_with(text + " is the CPU, where cpu-runner computes; "));
  for (const std::string text : {"", "256", "-2", "1.5", "gpu"})
    CHECK(refusal_of(gpu_number_from(text)) == text + " is not a whole number from 0 to 255");
}

TEST_CASE("flags: NUMA nodes are those of the machine, one, or so many that are made up") {
  CHECK(*numa_nodes_from("auto") == 0);
  CHECK(*numa_nodes_from("off") == 1);
  CHECK(*numa_nodes_from("1") == 1);
  CHECK(*numa_nodes_from("8") == 8);
  for (const std::string text : {"", "0", "9", "-1", "on", "2.5", "Auto"})
    CHECK(refusal_of(numa_nodes_from(text)) ==
          text + " is neither auto nor off nor a whole number from 1 to 8");
}

TEST_CASE("flags: the identity of a file is four numbers") {
  CHECK(check_file_identity("12-1700000000000000000-7-64769").ok());
  for (const std::string text : {"", "12", "12-1-7", "12-1-7-x"})
    CHECK(refusal_of(check_file_identity(text)) ==
          text + " is not SIZE-TIME-INODE-DEVICE, four whole numbers");
}

TEST_CASE("flags: an unknown name is refused with the names that are supported") {
  CHECK(*quantize_type_from("q4_0") == TensorType::kQ4_0);
  CHECK(refusal_of(quantize_type_from("q4_1")) == "q4_1 is not supported; it must be one of q8_0, q4_0");
  CHECK(*tensor_type_from("q4_1") == TensorType::kQ4_1);
  CHECK(refusal_of(tensor_type_from("q9")).starts_with("q9 is not supported; it must be one of "));
  CHECK(*kv_type_from("f32") == KvType::kF32);
  CHECK(refusal_of(kv_type_from("q4_0")) == "q4_0 is not supported; it must be one of f16, f32, q8_0");
  CHECK(*sandbox_mode_from("off") == SandboxMode::kOff);
  CHECK(refusal_of(sandbox_mode_from("on")) == "on is not supported; it must be one of strict, auto, off");
}

TEST_CASE("flags: floats are what a CPU alone computes products with") {
  CHECK(*activation_type_from("f32", /*uses_gpu=*/false) == ActivationType::kF32);
  CHECK(*activation_type_from("i8", /*uses_gpu=*/true) == ActivationType::kI8);
  CHECK(refusal_of(activation_type_from("f32", /*uses_gpu=*/true)) ==
        "f32 is what cpu-runner alone computes with; here it is i8");
  CHECK(refusal_of(activation_type_from("f64", /*uses_gpu=*/true))
            .starts_with("f64 is not supported; it must be one of "));
}

TEST_CASE("flags: a bias has its id in front") {
  const Result<LogitBias> bias = bias_from("42=-1.5");
  REQUIRE(bias.ok());
  CHECK(bias->token_id == 42);
  CHECK(bias->bias == -1.5f);
  for (const std::string text : {"", "42", "42=", "=1", "-1=1", "42=x", "42=1 ", "4294967296=1"})
    CHECK(refusal_of(bias_from(text)) == text + " is not ID=BIAS, such as 42=-1.5");
}

TEST_CASE("flags: a list of ids leaves none out") {
  CHECK(*ids_from("7") == std::vector<uint32_t>{7});
  CHECK(*ids_from("1,2,3") == std::vector<uint32_t>{1, 2, 3});
  for (const std::string text : {"", ",", "1,", ",1", "1,,2", "1, 2", "1;2", "x", "4294967296"})
    CHECK(refusal_of(ids_from(text)) == "\"" + text + "\" is not a list of ids, such as 1,2,3");
}

}  // namespace
}  // namespace runnel
