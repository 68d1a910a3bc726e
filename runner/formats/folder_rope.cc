#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <utility>
#include <vector>

#include "runner/formats/folder_values.h"

namespace runnel {
namespace {

using nlohmann::json;

// Limit of the heads for which factors are computed; heads of models are far smaller.
constexpr uint64_t kMaxHeadDim = 1 << 16;
constexpr double kMaxPositions = 1e9;  // limit of the numbers that are passed on

std::string rope_type_of(const json& scaling) {
  const json* type = FolderValues::find_in(scaling, "rope_type");
  if (type == nullptr) type = FolderValues::find_in(scaling, "type");
  if (type == nullptr) return "default";
  if (!type->is_string()) return "?";
  return *type == "su" ? "longrope" : type->get<std::string>();  // the name in Phi-3's first configurations
}

void check_default(FolderValues& values, const json& scaling) {
  if (rope_type_of(scaling) != "default")
    values.refuse("scales the positions of layers with a window, which is not supported");
}

void read_rotary_dim(FolderValues& values, const json* factor) {
  constexpr double kShareOfGlm4 = 0.5;  // transformers' default
  const bool is_glm4 = values.architecture() == "glm4";
  const json default_share = kShareOfGlm4;
  if (factor == nullptr) factor = values.find("partial_rotary_factor");
  if (factor == nullptr && is_glm4) factor = &default_share;
  if (factor == nullptr) return;
  if (!factor->is_number() || !(factor->get<double>() > 0 && factor->get<double>() <= 1))
    return values.refuse("has a partial_rotary_factor that is not above 0 and at most 1");
  const double share = factor->get<double>();
  if (share != 1.0 && !is_glm4 && values.architecture() != "phi3")
    return values.refuse("has a partial_rotary_factor, which is not supported for this architecture");
  if (values.found().head_dim > 0 && values.found().head_dim <= kMaxHeadDim)
    values.put(values.key_of("rope.dimension_count"),
               static_cast<uint64_t>(share * static_cast<double>(values.found().head_dim)));
}

// Llama 3's scaling: pairs with long waves rotate slower by the factor, pairs with short waves do not change,
// and those between get a mean of both. The formula is that of transformers (modeling_rope_utils).
void read_llama3(FolderValues& values, const json& scaling, double theta) {
  const json& config = values.config();
  const auto factor = FolderValues::number_in({&scaling}, "factor");
  const auto low = FolderValues::number_in({&scaling}, "low_freq_factor");
  const auto high = FolderValues::number_in({&scaling}, "high_freq_factor");
  const auto original = FolderValues::number_in({&scaling, &config}, "original_max_position_embeddings");
  if (!factor || !low || !high || !original || !(*high > *low)) {
    return values.refuse(
        "lacks factor, low_freq_factor, a larger high_freq_factor or original_max_position_embeddings, "
        "numbers that rope scaling \"llama3\" needs");
  }
  if (values.found().head_dim > kMaxHeadDim) return values.refuse("has heads of too many values");
  std::vector<float> factors;
  const auto dim = static_cast<double>(values.found().head_dim);
  for (uint64_t pair = 0; pair < values.found().head_dim / 2; ++pair) {
    const double wave = 2.0 * std::numbers::pi * std::pow(theta, 2.0 * static_cast<double>(pair) / dim);
    const double smooth = std::clamp((*original / wave - *low) / (*high - *low), 0.0, 1.0);
    factors.push_back(static_cast<float>(1.0 / ((1.0 - smooth) / *factor + smooth)));
  }
  if (!factors.empty()) values.found().factors.push_back({"rope_freqs.weight", "factor", std::move(factors)});
}

void read_longrope(FolderValues& values, const json& scaling) {
  const json& config = values.config();
  for (const auto& [name, tensor] : {std::pair("short_factor", "rope_factors_short.weight"),
                                     std::pair("long_factor", "rope_factors_long.weight")}) {
    const json* list = FolderValues::find_in(scaling, name);
    std::vector<float> factors;
    if (list != nullptr && list->is_array()) {
      for (const json& value : *list)
        factors.push_back(value.is_number() ? value.get<float>() : std::numeric_limits<float>::quiet_NaN());
    }
    if (factors.empty()) return values.refuse("lacks " + std::string(name) + ", a list of numbers");
    values.found().factors.push_back({tensor, name, std::move(factors)});
  }
  const auto original = FolderValues::number_in({&config, &scaling}, "original_max_position_embeddings");
  const auto longest = FolderValues::number_in({&config}, "max_position_embeddings");
  if (!original || !longest || !(*original > 1) || *original > *longest || *original > kMaxPositions)
    return values.refuse("lacks an original_max_position_embeddings from 2 to max_position_embeddings");
  values.put(values.key_of("rope.scaling.original_context_length"), static_cast<uint64_t>(*original));
  // The formula of transformers, unless the configuration has a value.
  double magnitude = std::sqrt(1.0 + std::log(*longest / *original) / std::log(*original));
  if (const auto said = FolderValues::number_in({&scaling}, "attention_factor")) magnitude = *said;
  values.put(values.key_of("rope.scaling.attn_factor"),
             double{static_cast<float>(magnitude)});  // the precision that GGUF has
}

// YaRN. GGUF's attn_factor multiplies the magnitude that follows from the factor.
void read_yarn(FolderValues& values, const json& scaling) {
  const json& config = values.config();
  const auto factor = FolderValues::number_in({&scaling}, "factor");
  if (!factor || !(*factor >= 1.0))
    return values.refuse("asks for rope scaling \"yarn\" without a factor of at least 1");
  const bool is_cut = values.architecture() != "gpt-oss";
  const json* cut = FolderValues::find_in(scaling, "truncate");
  if (cut == nullptr ? !is_cut : *cut != is_cut)
    return values.refuse("asks for rope scaling \"yarn\" with a truncate other than " +
                         std::string(is_cut ? "true" : "false") +
                         ", which is not supported for this architecture");
  for (const char* name : {"attention_factor", "mscale", "mscale_all_dim"}) {
    const json* value = FolderValues::find_in(scaling, name);
    if (value != nullptr && !value->is_number())
      return values.refuse("has a " + std::string(name) + " that is not a number");
  }
  values.put_number(FolderValues::find_in(scaling, "factor"), "rope.scaling.factor");
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const bool has_original =
      values.find(kOriginal) != nullptr || FolderValues::find_in(scaling, kOriginal) != nullptr;
  const auto original =
      FolderValues::number_in({&config, &scaling}, has_original ? kOriginal : "max_position_embeddings");
  if (!original || !(*original >= 1) || *original > kMaxPositions)
    return values.refuse("lacks an original_max_position_embeddings, which rope scaling \"yarn\" needs");
  values.put(values.key_of("rope.scaling.original_context_length"), static_cast<uint64_t>(*original));
  values.put_number(FolderValues::find_in(scaling, "beta_fast"), "rope.scaling.yarn_beta_fast");
  values.put_number(FolderValues::find_in(scaling, "beta_slow"), "rope.scaling.yarn_beta_slow");
  const auto magnitude_of = [&](double mscale) { return 1.0 + 0.1 * mscale * std::log(*factor); };
  auto magnitude = FolderValues::number_in({&scaling}, "attention_factor");
  const auto mscale = FolderValues::number_in({&scaling}, "mscale");
  const auto of_all = FolderValues::number_in({&scaling}, "mscale_all_dim");
  if (!magnitude && mscale && of_all && *mscale != 0.0 && *of_all != 0.0)
    magnitude = magnitude_of(*mscale) / magnitude_of(*of_all);
  if (magnitude)
    values.put(values.key_of("rope.scaling.attn_factor"),
               double{static_cast<float>(*magnitude / magnitude_of(1.0))});  // the precision that GGUF has
}

void read_scaling(FolderValues& values, const json& scaling, double theta) {
  const std::string type = rope_type_of(scaling);
  if (type == "default") return;
  if (type == "llama3" && values.architecture() == "llama") return read_llama3(values, scaling, theta);
  values.put(values.key_of("rope.scaling.type"), type);
  if (type == "linear") {
    const json* factor = FolderValues::find_in(scaling, "factor");
    if (factor == nullptr) return values.refuse("asks for rope scaling \"linear\" without a factor");
    values.put_number(factor, "rope.scaling.factor");
  }
  if (type == "yarn") read_yarn(values, scaling);
  if (type == "longrope" && values.architecture() == "phi3") read_longrope(values, scaling);
}

}  // namespace

void read_folder_rope(FolderValues& values) {
  const json* parameters = values.find("rope_parameters");
  if (parameters != nullptr && values.architecture() == "gemma3") {
    const json* local = FolderValues::find_in(*parameters, "sliding_attention");
    parameters = FolderValues::find_in(*parameters, "full_attention");
    if (local == nullptr || parameters == nullptr)
      return values.refuse("has rope_parameters without full_attention and sliding_attention");
    check_default(values, *local);
    values.put_number(FolderValues::find_in(*local, "rope_theta"), "rope.freq_base_swa");
  } else {
    values.put_number(values.find("rope_local_base_freq"), "rope.freq_base_swa");
  }
  const json* scaling = parameters != nullptr ? parameters : values.find("rope_scaling");
  if (scaling != nullptr && !scaling->is_object())
    return values.refuse("has rope parameters that are not an object");
  const json none = json::object();
  if (scaling == nullptr) scaling = &none;
  const json* theta = FolderValues::find_in(*scaling, "rope_theta");
  if (theta == nullptr) theta = values.find("rope_theta");
  values.put_number(theta, "rope.freq_base");
  read_rotary_dim(values, FolderValues::find_in(*scaling, "partial_rotary_factor"));
  read_scaling(values, *scaling, theta != nullptr && theta->is_number() ? theta->get<double>() : 10'000.0);
}

}  // namespace runnel
