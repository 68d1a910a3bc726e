// Wrong hyper-parameters are refused with a sentence that names the key and its value.
#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "runner/models/architectures.h"
#include "runner/models/registry.h"
#include "test/fixtures/tiny_llama.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

Result<ModelConfig> config_of(const std::function<void(GgufWriter&)>& change,
                              const std::string& expected = "") {
  GgufWriter writer = write_tiny_llama({});
  change(writer);
  const TemporaryFile file(writer.bytes());
  const Result<ModelFile> opened = ModelFile::open(file.path());
  REQUIRE(opened.ok());
  Result<ModelConfig> config = read_config(*opened, expected);
  if (config) return config;
  CHECK(config.error().exit_code == ExitCode::kBadModel);
  CHECK(config.error().message.starts_with(file.path() + " "));
  return Error{config.error().exit_code, config.error().message.substr(file.path().size() + 1)};
}

std::string refusal_of(const std::function<void(GgufWriter&)>& change, const std::string& expected = "") {
  const Result<ModelConfig> config = config_of(change, expected);
  return config ? "accepted" : config.error().message;
}

TEST_CASE("a config holds what the file says, and the usual defaults") {
  const ModelConfig config = *config_of([](GgufWriter& w) {
    w.remove("llama.attention.head_count_kv");
    w.remove("llama.rope.freq_base");
  });
  CHECK(config.architecture == "llama");
  CHECK(config.num_layers == 2);
  CHECK(config.hidden_size == 64);
  CHECK(config.num_heads == 4);
  CHECK(config.num_kv_heads == 4);
  CHECK(config.head_dim == 16);
  CHECK(config.rotary_dim == 16);
  CHECK(config.ffn_size == 96);
  CHECK(config.vocab_size == 100);
  CHECK(config.context_length == 512);
  CHECK(config.rope_theta == 10'000.0);
  CHECK(config.norm_epsilon == 1e-5f);
}

TEST_CASE("an architecture that is not there, or not the one asked for, is refused with the names") {
  CHECK(refusal_of([](GgufWriter& w) { w.text("general.architecture", "xverse"); }) ==
        std::string("is of architecture \"xverse\", which is not supported; supported: ") +
            architecture_names() + ".");
  for (const auto& [name, missing] :
       std::map<std::string, std::string>{{"jina-bert-v2", "ALiBi, biases of scores by distance"},
                                          {"new", "NTK scaling of rotations in an encoder"}}) {
    CHECK(refusal_of([&](GgufWriter& w) { w.text("general.architecture", name); }) ==
          "is of architecture \"" + name + "\", which is not supported: it needs " + missing +
              "; supported: " + architecture_names() + ".");
  }
  CHECK(refusal_of([](GgufWriter& w) { w.remove("general.architecture"); }) ==
        "lacks metadata general.architecture.");
  CHECK(refusal_of([](GgufWriter&) {}, "qwen2") ==
        "is of architecture \"llama\", not \"qwen2\" as was asked for.");
  CHECK(refusal_of([](GgufWriter&) {}, "llama") == "accepted");
}

TEST_CASE("a count that is missing, zero, too large or no count is refused by name") {
  for (const char* name :
       {"block_count", "embedding_length", "feed_forward_length", "context_length", "attention.head_count"}) {
    const std::string key = std::string("llama.") + name;
    CAPTURE(key);
    CHECK(refusal_of([&](GgufWriter& w) { w.remove(key); }) == "lacks metadata " + key + ".");
    CHECK(refusal_of([&](GgufWriter& w) {
            w.u32(key, 0);
          }).starts_with("has " + key + " 0; it must be from 1"));
    CHECK(refusal_of([&](GgufWriter& w) {
            w.u32(key, 0xffffffff);
          }).starts_with("has " + key + " 4294967295;"));
    CHECK(refusal_of([&](GgufWriter& w) { w.text(key, "8"); }) ==
          "has a " + key + " that is not an unsigned integer.");
    CHECK(refusal_of([&](GgufWriter& w) { w.entry(key, kGgufInt32, raw<int32_t>(-1)); }) ==
          "has a " + key + " that is not an unsigned integer.");
  }
  CHECK(refusal_of([](GgufWriter& w) {
          w.u32("llama.attention.head_count_kv", 0);
        }).starts_with("has llama.attention.head_count_kv 0;"));
}

TEST_CASE("heads that do not divide are refused") {
  CHECK(refusal_of([](GgufWriter& w) { w.u32("llama.attention.head_count_kv", 3); }) ==
        "has 4 query heads and 3 key heads; the first number must be a multiple of the second.");
  CHECK(refusal_of([](GgufWriter& w) { w.u32("llama.attention.head_count", 6); }) ==
        "has a width of 64, which is not a multiple of its 6 heads.");
  CHECK(refusal_of([](GgufWriter& w) { w.u32("llama.attention.head_count", 128); }) ==
        "has a width of 64, which is not a multiple of its 128 heads.");
  CHECK(refusal_of([](GgufWriter& w) {
          w.u32("llama.embedding_length", 8192);
          w.u32("llama.attention.head_count", 2);
        }) == "has heads of 4096 values; at most 256 are supported.");
  CHECK(refusal_of([](GgufWriter& w) { w.u32("llama.rope.dimension_count", 15); }) ==
        "has llama.rope.dimension_count 15; it must be even.");
  CHECK(refusal_of([](GgufWriter& w) {
          w.u32("llama.rope.dimension_count", 18);
        }).starts_with("has llama.rope.dimension_count 18;"));
  CHECK(refusal_of([](GgufWriter& w) { w.u32("llama.attention.value_length", 8); }) ==
        "has keys of 16 and values of 8 numbers; they must be equal.");
}

TEST_CASE("a model that was trained for more positions than are supported has those that are") {
  for (const uint32_t trained : {(1u << 20) - 1, 1u << 20, 1'010'000u, 10u << 20}) {
    const auto config = config_of([&](GgufWriter& w) { w.u32("llama.context_length", trained); });
    REQUIRE(config.ok());
    CHECK(config->context_length == std::min(trained, 1u << 20));
  }
}

TEST_CASE("a context without room for an answer is refused") {
  CHECK(refusal_of([](GgufWriter& w) { w.u32("llama.context_length", 1); }) ==
        "has llama.context_length 1; a prompt and an answer need 2.");
}

TEST_CASE("numbers that nothing can be computed with are refused") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float theta : {0.0f, -1.0f, 0.5f, nan, infinity}) {
    CHECK(refusal_of([&](GgufWriter& w) {
            w.f32("llama.rope.freq_base", theta);
          }).starts_with("has llama.rope.freq_base "));
  }
  for (const float epsilon : {0.0f, -1e-5f, 2.0f, nan, infinity}) {
    CHECK(refusal_of([&](GgufWriter& w) {
            w.f32("llama.attention.layer_norm_rms_epsilon", epsilon);
          }).starts_with("has llama.attention.layer_norm_rms_epsilon "));
  }
  CHECK(refusal_of([](GgufWriter& w) { w.remove("llama.attention.layer_norm_rms_epsilon"); }) ==
        "lacks metadata llama.attention.layer_norm_rms_epsilon.");
}

TEST_CASE("linear rope scaling is one factor for all positions") {
  const ModelConfig config = *config_of([](GgufWriter& w) {
    w.text("llama.rope.scaling.type", "linear");
    w.f32("llama.rope.scaling.factor", 4.0f);
  });
  CHECK(config.rope_factor == 4.0);
  CHECK(refusal_of([](GgufWriter& w) {
          w.f32("llama.rope.scaling.factor", 0.5f);
        }).starts_with("has llama.rope.scaling.factor 0.5"));
}

TEST_CASE("YaRN needs the length that it starts from, and numbers that can be computed with") {
  const auto with = [](const std::function<void(GgufWriter&)>& change) {
    return [change](GgufWriter& w) {
      w.text("llama.rope.scaling.type", "yarn");
      w.f32("llama.rope.scaling.factor", 4.0f);
      w.u32("llama.rope.scaling.original_context_length", 128);
      change(w);
    };
  };
  const ModelConfig config = *config_of(with([](GgufWriter&) {}));
  CHECK(config.original_context_length == 128);
  CHECK(config.rope_factor == 4.0);
  CHECK(config.rope_magnitude == doctest::Approx(1.0 + 0.1 * std::log(4.0)));
  CHECK(config.yarn_fast_turns == 32.0);
  CHECK(config.yarn_slow_turns == 1.0);
  const auto refusal = [&](const std::function<void(GgufWriter&)>& change) {
    return refusal_of(with(change));
  };
  CHECK(refusal([](GgufWriter& w) { w.remove("llama.rope.scaling.original_context_length"); }) ==
        "lacks metadata llama.rope.scaling.original_context_length.");
  CHECK(refusal([](GgufWriter& w) { w.f32("llama.rope.freq_base", 1.0f); }) ==
        "asks for rope scaling \"yarn\" of pairs that all turn equally fast.");
  CHECK(refusal([](GgufWriter& w) {
          w.f32("llama.rope.scaling.yarn_beta_slow", 33.0f);
        }).starts_with("has llama.rope.scaling.yarn_beta_slow 33.0"));
  CHECK(refusal([](GgufWriter& w) { w.f32("llama.rope.scaling.yarn_log_multiplier", 0.1f); }) ==
        "has llama.rope.scaling.yarn_log_multiplier, which is not supported.");
  CHECK(refusal([](GgufWriter& w) {
          w.f32("llama.rope.scaling.attn_factor", 0.0f);
        }).starts_with("has llama.rope.scaling.attn_factor 0.0"));
}

TEST_CASE("variants that would be computed wrongly are refused by name") {
  CHECK(refusal_of([](GgufWriter& w) { w.text("llama.rope.scaling.type", "dynamic"); }) ==
        "asks for rope scaling \"dynamic\", which is not supported.");
  CHECK(refusal_of([](GgufWriter& w) { w.text("llama.rope.scaling.type", "none"); }) == "accepted");
  CHECK(refusal_of([](GgufWriter& w) { w.text("llama.rope.scaling.type", "longrope"); }) ==
        "asks for rope scaling \"longrope\", which is not supported.");
  CHECK(refusal_of([](GgufWriter& w) { w.f32("llama.rope.scaling.attn_factor", 1.2f); }) ==
        "has llama.rope.scaling.attn_factor, which is not supported for this architecture.");
  CHECK(refusal_of([](GgufWriter& w) { w.f32("llama.final_logit_softcapping", 30.0f); }) ==
        "has llama.final_logit_softcapping, which is not supported.");
  CHECK(refusal_of([](GgufWriter& w) { w.u32("llama.expert_count", 0); }) == "accepted");
}

TEST_CASE("a sliding window is read where there is one") {
  const auto window_of = [](const std::function<void(GgufWriter&)>& change) {
    return config_of(change)->sliding_window;
  };
  const std::string key = "llama.attention.sliding_window";
  CHECK(window_of([](GgufWriter&) {}) == 0);
  CHECK(window_of([&](GgufWriter& w) { w.u32(key, 0); }) == 0);
  CHECK(window_of([&](GgufWriter& w) { w.u32(key, 1); }) == 1);
  CHECK(window_of([&](GgufWriter& w) { w.u32(key, 4096); }) == 4096);
  CHECK(refusal_of([&](GgufWriter& w) { w.text(key, "8"); }) ==
        "has a " + key + " that is not an unsigned integer.");
  CHECK(refusal_of([&](GgufWriter& w) { w.entry(key, kGgufInt32, raw<int32_t>(-1)); }) ==
        "has a " + key + " that is not an unsigned integer.");
}

TEST_CASE("a vocabulary without weights is refused") {
  CHECK(refusal_of([](GgufWriter& w) { w.remove_tensor("token_embd.weight"); }) ==
        "lacks tensor \"token_embd.weight\".");
  CHECK(refusal_of([](GgufWriter& w) {
          w.array("tokenizer.ggml.tokens", kGgufUint8, 101, std::string(101, 'a'));
        }) == "names 101 tokens but has weights for 100.");
}

}  // namespace
}  // namespace runnel
