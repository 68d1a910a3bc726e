// The tensors and hyper-parameters of each architecture. A refusal names what is missing, extra, of a wrong
// shape or out of bounds.
#include "runner/models/architectures.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <sstream>

#include "cpu-runner/cpu_backend.h"
#include "runner/formats/in_quotes.h"
#include "runner/models/registry.h"
#include "test/fixtures/golden_models.h"

namespace runnel {
namespace {

using namespace test;

constexpr StepLimits kLimits{.max_rows = 8, .max_head_rows = 8};

std::string outcome_of(const GgufWriter& writer) {
  const TemporaryFile file(writer.bytes());
  const Result<ModelFile> opened = ModelFile::open(file.path());
  REQUIRE(opened.ok());
  const auto backend = make_cpu_backend({.num_threads = 1});
  REQUIRE(backend.ok());
  const auto model = load_model(*opened, "", 0, **backend, kLimits, {});
  if (model) return "accepted";
  CHECK(model.error().exit_code == ExitCode::kBadModel);
  CHECK(model.error().message.starts_with(file.path()));
  return model.error().message.substr(file.path().size() + 1);
}

std::string outcome_of(const std::string& name, const std::function<void(GgufWriter&)>& change) {
  GgufWriter writer = writer_of(golden_model_path(name + "-f32.gguf"));
  change(writer);
  return outcome_of(writer);
}

// Without these tensors the embedding is the output matrix, and the factors of the rope are 1.
bool is_optional(const std::string& tensor) {
  return tensor == "output.weight" || tensor == "rope_freqs.weight";
}

TEST_CASE("every tensor of every architecture is asked for, by its name and shape") {
  for (const GoldenModel& model : kGoldenModels) {
    const GgufWriter whole = writer_of(f32_path(model));
    for (const WrittenTensor& tensor : whole.tensors) {
      CAPTURE(model.name);
      CAPTURE(tensor.name);
      GgufWriter without = whole;
      without.remove_tensor(tensor.name);
      const std::string outcome = outcome_of(without);
      const std::string wanted =
          is_optional(tensor.name) ? "accepted" : "lacks tensor " + runnel::in_quotes(tensor.name) + ".";
      // The short factors are of no use without the long ones, and biases of keys without those of queries.
      if (tensor.name == "rope_factors_long.weight") {
        CHECK(outcome.starts_with("has tensor \"rope_factors_short.weight\", which this architecture"));
      } else if (model.name == "glm4" && tensor.name.ends_with("attn_q.bias")) {
        CHECK(outcome.find("attn_k.bias\", which this architecture") != std::string::npos);
      } else {
        CHECK(outcome == wanted);
      }

      GgufWriter misshapen = whole;
      misshapen.tensor(tensor.name).dims.push_back(2);
      misshapen.tensor(tensor.name).data += tensor.data;
      const std::string refusal = outcome_of(misshapen);
      CHECK(refusal.find("tensor " + runnel::in_quotes(tensor.name)) != std::string::npos);
      CHECK(refusal.find(" was expected.") != std::string::npos);
    }
  }
}

TEST_CASE("a tensor that an architecture has no use for is named") {
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.name);
    for (const char* name : {"blk.0.attn_q_b.weight", "blk.9.attn_norm.weight", "cls.weight"}) {
      GgufWriter writer = writer_of(f32_path(model));
      writer.tensors.push_back({name, {8}, 0, std::string(32, '\0'), std::nullopt});
      CHECK(outcome_of(writer).starts_with("has tensor " + runnel::in_quotes(name) +
                                           ", which this architecture"));
    }
  }
}

TEST_CASE("the head of a Qwen3 reranker, whose rows the output matrix has too, is left in the file") {
  const auto with_head = [](const std::string& model, uint64_t num_labels) {
    return outcome_of(model, [&](GgufWriter& w) {
      const uint64_t width = w.tensor("output_norm.weight").dims.front();
      const std::string data(width * num_labels * sizeof(float), '\0');
      w.tensors.push_back({"cls.output.weight", {width, num_labels}, 0, data, std::nullopt});
    });
  };
  CHECK(with_head("qwen3", 2) == "accepted");
  CHECK(with_head("qwen3", 3).starts_with("has tensor \"cls.output.weight\" of shape"));
  CHECK(with_head("qwen2", 2).starts_with("has tensor \"cls.output.weight\", which this architecture"));
}

TEST_CASE("hyper-parameters that one architecture has are checked as all are") {
  CHECK(outcome_of("qwen3moe", [](GgufWriter& w) { w.remove("qwen3moe.expert_count"); }) ==
        "lacks metadata qwen3moe.expert_count.");
  CHECK(outcome_of("qwen3moe", [](GgufWriter& w) { w.u32("qwen3moe.expert_count", 100'000); }) ==
        "has qwen3moe.expert_count 100000; it must be from 1 to 1024.");
  CHECK(outcome_of("qwen3moe", [](GgufWriter& w) { w.u32("qwen3moe.expert_used_count", 7); }) ==
        "has qwen3moe.expert_used_count 7; it must be from 1 to 6.");
  CHECK(outcome_of("qwen3moe", [](GgufWriter& w) { w.u32("qwen3moe.expert_feed_forward_length", 33); }) ==
        "has qwen3moe.expert_feed_forward_length 33; with experts it must be a multiple of 32.");
  CHECK(outcome_of("gpt2", [](GgufWriter& w) { w.remove("gpt2.attention.layer_norm_epsilon"); }) ==
        "lacks metadata gpt2.attention.layer_norm_epsilon.");
  CHECK(outcome_of("phi3", [](GgufWriter& w) { w.u32("phi3.rope.scaling.original_context_length", 0); }) ==
        "has phi3.rope.scaling.original_context_length 0; it must be from 1 to 512.");
  CHECK(outcome_of("phi3", [](GgufWriter& w) {
          w.f32("phi3.rope.scaling.attn_factor", 0.0f);
        }).starts_with("has phi3.rope.scaling.attn_factor 0.0"));
  CHECK(outcome_of("phi3", [](GgufWriter& w) { w.text("phi3.rope.scaling.type", "yarn"); }) ==
        "asks for rope scaling \"yarn\", which is not supported.");
  CHECK(outcome_of("mixtral", [](GgufWriter& w) { w.u32("llama.expert_used_count", 6); }) ==
        "has llama.expert_used_count 6; it must be from 1 to 5.");
  CHECK(outcome_of("mixtral", [](GgufWriter& w) { w.u32("llama.feed_forward_length", 33); }) ==
        "has llama.feed_forward_length 33; with experts it must be a multiple of 32.");
  CHECK(outcome_of("gpt-oss", [](GgufWriter& w) { w.remove("gpt-oss.expert_feed_forward_length"); }) ==
        "lacks metadata gpt-oss.expert_feed_forward_length.");
  CHECK(outcome_of("gpt-oss", [](GgufWriter& w) {
          w.u32("gpt-oss.attention.sliding_window_pattern", 1025);
        }) == "has gpt-oss.attention.sliding_window_pattern 1025; it must be from 1 to 1024.");
  CHECK(outcome_of("qwen2", [](GgufWriter& w) { w.u32("qwen2.expert_count", 8); }) ==
        "has qwen2.expert_count, which is not supported for this architecture.");
  CHECK(outcome_of("granite", [](GgufWriter& w) { w.remove("granite.residual_scale"); }) ==
        "lacks metadata granite.residual_scale.");
  CHECK(outcome_of("granite", [](GgufWriter& w) {
          w.f32("granite.logit_scale", 0.0f);
        }).starts_with("has granite.logit_scale 0.0"));
  CHECK(outcome_of("granite", [](GgufWriter& w) { w.u32("granite.rope.scaling.finetuned", 0); }) ==
        "has granite.rope.scaling.finetuned, which is not supported.");
  CHECK(outcome_of("glm4", [](GgufWriter& w) { w.u32("glm4.rope.dimension_sections", 1); }) ==
        "has glm4.rope.dimension_sections, as models of images have; they are not supported.");
  CHECK(outcome_of("gemma3", [](GgufWriter& w) { w.u32("gemma3.attention.sliding_window_pattern", 0); }) ==
        "has gemma3.attention.sliding_window_pattern 0; it must be from 1 to 1024.");
  const auto capped = [](const char* name, float cap) {
    return outcome_of("gemma2", [&](GgufWriter& w) { w.f32(std::string("gemma2.") + name, cap); });
  };
  for (const std::string name : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    CHECK(capped(name.c_str(), 0.0f) == "accepted");
    for (const float cap : {-1.0f, 1e-4f, 1e10f, std::nanf("")})
      CHECK(capped(name.c_str(), cap).starts_with("has gemma2." + name + " "));
  }
  CHECK(outcome_of("olmo2", [](GgufWriter& w) { w.u32("olmo2.attention.sliding_window", 4096); }) ==
        "has olmo2.attention.sliding_window, as OLMo 3 has; it is not supported for this architecture.");
  CHECK(outcome_of("gemma3", [](GgufWriter& w) {
          w.f32("gemma3.rope.freq_base_swa", 0.5f);
        }).starts_with("has gemma3.rope.freq_base_swa 0.5"));
}

TEST_CASE("hostile values of every hyper-parameter of every architecture are refused, or change nothing") {
  const std::function<void(GgufWriter&, const std::string&)> changes[] = {
      [](GgufWriter& w, const std::string& key) { w.remove(key); },
      [](GgufWriter& w, const std::string& key) { w.u32(key, 0); },
      [](GgufWriter& w, const std::string& key) { w.u32(key, 1); },
      [](GgufWriter& w, const std::string& key) { w.u32(key, 0xffffffff); },
      [](GgufWriter& w, const std::string& key) { w.entry(key, kGgufUint64, raw(~uint64_t{0})); },
      [](GgufWriter& w, const std::string& key) { w.entry(key, kGgufInt32, raw<int32_t>(-1)); },
      [](GgufWriter& w, const std::string& key) { w.f32(key, 0.0f); },
      [](GgufWriter& w, const std::string& key) { w.f32(key, -1.5f); },
      [](GgufWriter& w, const std::string& key) { w.f32(key, 1e30f); },
      [](GgufWriter& w, const std::string& key) { w.f32(key, std::nanf("")); },
      [](GgufWriter& w, const std::string& key) { w.f32(key, HUGE_VALF); },
      [](GgufWriter& w, const std::string& key) { w.text(key, "yarn"); },
      [](GgufWriter& w, const std::string& key) { w.entry(key, kGgufBool, raw<uint8_t>(1)); },
      [](GgufWriter& w, const std::string& key) { w.array(key, kGgufUint32, 2, std::string(8, '\1')); },
  };
  for (const GoldenModel& model : kGoldenModels) {
    CAPTURE(model.name);
    const Result<ModelFile> file = ModelFile::open(f32_path(model));
    REQUIRE(file.ok());
    const GgufWriter whole = writer_of(f32_path(model));
    const std::string prefix = *file->text("general.architecture") + ".";
    size_t num_keys = 0;
    size_t num_refused = 0;
    for (const GgufEntry& entry : file->entries()) {
      if (!entry.key.starts_with(prefix)) continue;
      ++num_keys;
      for (const auto& change : changes) {
        CAPTURE(entry.key);
        GgufWriter bent = whole;
        change(bent, entry.key);
        num_refused += outcome_of(bent) != "accepted";
      }
    }
    CHECK(num_refused > num_keys * std::size(changes) / 2);
  }
}

TEST_CASE("factors of a rope that cannot be computed with are refused by name") {
  for (const float bad : {0.0f, -1.0f, 1e-5f, 1e9f, std::nanf(""), HUGE_VALF}) {
    CAPTURE(bad);
    const std::string refusal = outcome_of("llama3", [&](GgufWriter& w) {
      std::memcpy(w.tensor("rope_freqs.weight").data.data() + sizeof(float), &bad, sizeof bad);
    });
    CHECK(refusal.find("in tensor \"rope_freqs.weight\", which is outside the supported range.") !=
          std::string::npos);
  }
  CHECK(outcome_of("llama3", [](GgufWriter& w) {
          w.f32("llama.rope.scaling.factor", 2.0f);
        }).starts_with("has both a factor for all positions and tensor \"rope_freqs.weight\""));
}

TEST_CASE("every architecture that there is has a golden model") {
  for (const GoldenModel& model : kGoldenModels) {
    const Result<ModelFile> file = ModelFile::open(f32_path(model));
    REQUIRE(file.ok());
    const Architecture* architecture = find_architecture(*file->text("general.architecture"));
    REQUIRE(architecture != nullptr);
  }
  const auto has_golden = [](std::string_view name) {
    if (name == "bert" || name == "nomic-bert") return true;  // has vectors alone: see encoder_test.cc
    return std::ranges::any_of(kGoldenModels, [&](const GoldenModel& model) {
      return *ModelFile::open(f32_path(model))->text("general.architecture") == name;
    });
  };
  std::istringstream names(architecture_names());
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    CAPTURE(name);
    CHECK(has_golden(name));
  }
}

}  // namespace
}  // namespace runnel
