// Reads a model in a folder with Hugging Face's layout, and gives its parts GGUF's names.
#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "runner/formats/bad_model.h"
#include "runner/formats/folder_config.h"
#include "runner/formats/folder_names.h"
#include "runner/formats/in_quotes.h"
#include "runner/formats/json_text.h"
#include "runner/formats/model_contents.h"
#include "runner/formats/model_identity.h"
#include "runner/formats/safetensors.h"

namespace runnel {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 24;
constexpr uint64_t kMxfp4CodeBytes = 16;  // of a block

std::string_view text_of(const MappedFile& file) {
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

Result<MappedFile> map_small(const RegularFile& file, uint64_t max_bytes) {
  if (file.num_bytes() <= max_bytes) return MappedFile::map(file);
  return bad_model(file.path(), "has " + std::to_string(file.num_bytes()) + " bytes; at most " +
                                    std::to_string(max_bytes) + " are read");
}

// The file of each tensor: file names by tensor names.
using WeightMap = std::map<std::string, std::string>;

Result<WeightMap> weight_map_of(std::string_view text, const std::string& path) {
  const Result<nlohmann::json> index = parse_json(text, path);
  if (!index) return index.error();
  const auto found = index->is_object() ? index->find("weight_map") : index->end();
  if (!index->is_object() || found == index->end() || !found->is_object())
    return bad_model(path, "lacks weight_map, an object");
  WeightMap map;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string())
      return bad_model(path,
                       "has a weight_map whose entry " + runnel::in_quotes(tensor) + " is not a file name");
    map.emplace(tensor, file.get<std::string>());
  }
  return map;
}

class FolderReader {
 public:
  explicit FolderReader(const ModelFiles& files) : files_(files) { model_.path = files.path(); }

  Result<ModelContents> read() {
    Result<MappedFile> config = map_small(*files_.config(), kMaxConfigBytes);
    if (!config) return config.error();
    Result<FolderConfig> found = read_folder_config(text_of(*config), files_.config()->path());
    if (!found) return found.error();
    config_ = *std::move(found);
    hash_ = hash_of_head(config->bytes());
    if (const auto read = read_weights(); !read) return read.error();
    if (const auto given = give_scales(); !given) return given.error();
    model_.entries = std::move(config_.entries);
    for (FolderConfig::Factors& factors : config_.factors) add_computed(std::move(factors));
    if (const auto checked = check_ends(); !checked) return checked.error();
    return std::move(model_);
  }

 private:
  static std::string_view name_of(const RegularFile& file) {
    const std::string_view path = file.path();
    return path.substr(path.rfind('/') + 1);
  }

  Result<void> read_weights() {
    const RegularFile& front = files_.parts().front();
    if (front.path().ends_with(".safetensors")) return read_part(front, nullptr);
    Result<MappedFile> index = map_small(front, kMaxIndexBytes);
    if (!index) return index.error();
    const Result<WeightMap> map = weight_map_of(text_of(*index), front.path());
    if (!map) return map.error();
    const auto has_tensor = [&](const std::string& name) { return map->contains(name); };
    if (const auto named = find_names(has_tensor, front.path()); !named) return named;
    hash_ = hash_of_part(hash_, *index, index->bytes());
    model_.identity = identity_of(hash_, *index);
    std::set<std::string_view> names;
    for (const auto& [tensor, file] : *map) names.insert(file);
    for (const std::string_view name : names) {
      const auto shards = files_.parts().subspan(1);
      const auto shard = std::ranges::find(shards, name, name_of);
      if (shard == shards.end()) {
        return Error{ExitCode::kNoFile, front.path() + " names " + runnel::in_quotes(name) +
                                            ", which is not a safetensors file in the folder."};
      }
      if (const auto read = read_part(*shard, &*map); !read) return read;
    }
    if (num_tensors_ != map->size()) {
      return bad_model(front.path(), "names " + std::to_string(map->size()) + " tensors; its files have " +
                                         std::to_string(num_tensors_));
    }
    model_.identity = identity_of(hash_, *index);
    return {};
  }

  Result<void> find_names(const std::function<bool(const std::string&)>& has_tensor,
                          const std::string& path) {
    Result<FolderNames> names = FolderNames::of(config_.architecture, has_tensor, path);
    if (!names) return names.error();
    model_.folder_names = *std::move(names);
    return {};
  }

  // map comes from the index, and names the file for each tensor. nullptr: there is no index.
  Result<void> read_part(const RegularFile& opened, const WeightMap* map) {
    Result<MappedFile> file = MappedFile::map(opened);
    if (!file) return file.error();
    const Result<SafetensorsContents> contents = parse_safetensors(file->bytes(), opened.path());
    if (!contents) return contents.error();
    hash_ = hash_of_part(hash_, *file, contents->head);
    if (map == nullptr) {
      model_.identity = identity_of(hash_, *file);
      const auto has_tensor = [&](const std::string& name) {
        return std::ranges::find(contents->tensors, name, &SafetensorsTensor::name) !=
               contents->tensors.end();
      };
      if (const auto named = find_names(has_tensor, opened.path()); !named) return named;
    }
    for (const SafetensorsTensor& tensor : contents->tensors) {
      if (map != nullptr) {
        const auto said = map->find(tensor.name);
        if (said == map->end() || said->second != name_of(opened))
          return bad_model(opened.path(), "has tensor " + runnel::in_quotes(tensor.name) +
                                              ", which the index does not list in this file");
      }
      ++num_tensors_;
      if (const auto added = add(tensor, opened.path()); !added) return added;
    }
    model_.files.push_back(*std::move(file));
    return {};
  }

  Result<void> add(const SafetensorsTensor& tensor, const std::string& path) {
    const std::optional<FolderName> name = model_.folder_names->gguf_name_of(tensor.name);
    const std::string what = "has tensor " + runnel::in_quotes(tensor.name);
    if (name && name->gguf_name.empty()) return {};
    // This tensor is a copy of the embedding, by which the head multiplies.
    if (name && name->gguf_name == "output.weight" && config_.is_tied) return {};
    TensorView view{name ? name->gguf_name : tensor.name,
                    TensorType::kF32,
                    static_cast<uint32_t>(tensor.shape.size()),
                    {1, 1, 1, 1},
                    tensor.data};
    const bool has_scales = name && name->kind == Arrangement::kMxfp4Scales;
    const bool has_codes = name && name->kind == Arrangement::kMxfp4Blocks;
    if (has_scales || has_codes) {
      view.type = TensorType::kMXFP4;
      view.num_dims = 3;
      if (tensor.dtype != "U8" || tensor.shape.size() != (has_codes ? 4 : 3) ||
          (has_codes && tensor.shape.back() != kMxfp4CodeBytes))
        return bad_model(path, what + " that is not U8 of (experts, rows, blocks" +
                                   (has_codes ? ", " + std::to_string(kMxfp4CodeBytes) : "") + ")");
    } else if (tensor.dtype == "F16") {
      view.type = TensorType::kF16;
    } else if (tensor.dtype == "BF16") {
      view.type = TensorType::kBF16;
    } else if (tensor.dtype != "F32") {
      return bad_model(path, what + " of dtype " + tensor.dtype + "; supported are F32, F16 and BF16");
    }
    if (tensor.shape.empty() || tensor.shape.size() > view.shape.size()) {
      return bad_model(path, what + " with " + std::to_string(tensor.shape.size()) + " dimensions; 1 to " +
                                 std::to_string(view.shape.size()) + " are possible");
    }
    if (has_scales) {
      scales_.emplace(tensor.name, tensor);
      return {};
    }
    // A tensor with an unknown name is kept, and the loader reports that nothing uses it.
    Arrangement arrangement{name ? name->kind : Arrangement::kSame, config_.head_dim};
    std::ranges::reverse_copy(std::span(tensor.shape).first(view.num_dims), view.shape.begin());
    if (arrangement.kind == Arrangement::kTransposed && view.num_dims > 1)
      std::swap(view.shape[0], view.shape[1]);
    if (has_codes) view.shape[0] *= block_weights(view.type);
    if (name && !name->second_name.empty()) {
      uint64_t& rows =
          view.shape[arrangement.kind == Arrangement::kInterleaved || view.num_dims == 1 ? 0 : 1];
      if (rows % 2 != 0)
        return bad_model(path, what + " of " + std::to_string(rows) +
                                   " rows of gate and up in turn; their number must be even");
      arrangement.step = 2;
      rows /= 2;
    }
    if (arrangement.kind == Arrangement::kHalvedHeads) {
      const uint64_t dim = config_.head_dim;
      if (dim == 0 || dim % 2 != 0 || tensor.shape.front() % dim != 0) {
        return bad_model(path, what + " of " + std::to_string(tensor.shape.front()) +
                                   " rows; the number of rows must be a multiple of the head dimension, " +
                                   std::to_string(dim) + ", which must be even");
      }
    }
    if (view.name == "position_embd.weight" && config_.first_position < view.rows()) {
      view.data = view.data.subspan(view.data.size() / view.rows() * config_.first_position);
      view.shape[1] -= config_.first_position;
    }
    for (; arrangement.first < arrangement.step; ++arrangement.first) {
      if (arrangement.first == 1) view.name = name->second_name;
      if (!names_.insert(view.name).second) return bad_model(path, what + " twice");
      if (arrangement.kind != Arrangement::kSame) model_.others.emplace(view.name, arrangement);
      model_.own_names.emplace(view.name, tensor.name);
      model_.tensors.push_back(view);
    }
    return {};
  }

  // Blocks of MXFP4 and their scales are tensors of their own in a folder.
  Result<void> give_scales() {
    size_t num_given = 0;
    for (const TensorView& tensor : model_.tensors) {
      const auto other = model_.others.find(tensor.name);
      if (other == model_.others.end() || other->second.kind != Arrangement::kMxfp4Blocks) continue;
      Arrangement& arrangement = other->second;
      const std::string& blocks = model_.own_names.at(tensor.name);
      const std::string wanted = blocks.substr(0, blocks.rfind('_')) + "_scales";
      const auto scales = scales_.find(wanted);
      if (scales == scales_.end()) return bad_model(model_.path, "lacks tensor " + runnel::in_quotes(wanted));
      const std::vector<uint64_t> shape = {tensor.shape[2], tensor.shape[1] * arrangement.step,
                                           tensor.shape[0] / block_weights(tensor.type)};
      if (scales->second.shape != shape)
        return bad_model(model_.path, "has tensor " + runnel::in_quotes(wanted) +
                                          " of another shape than that of its blocks");
      arrangement.scales = scales->second.data;
      num_given += arrangement.first == 0;
    }
    if (num_given == scales_.size()) return {};
    return bad_model(model_.path, "has scales of MXFP4 without their blocks");
  }

  void add_computed(FolderConfig::Factors factors) {
    const std::vector<float>& kept = model_.computed.emplace_back(std::move(factors.values));
    model_.own_names.emplace(factors.name, std::move(factors.key));
    model_.tensors.push_back({std::move(factors.name),
                              TensorType::kF32,
                              1,
                              {kept.size(), 1, 1, 1},
                              std::as_bytes(std::span(kept))});
  }

  // Checks the embedding and the output matrix.
  Result<void> check_ends() const {
    const auto rows_of = [&](std::string_view name) -> std::optional<uint64_t> {
      const auto found = std::ranges::find(model_.tensors, name, &TensorView::name);
      return found == model_.tensors.end() ? std::nullopt : std::optional(found->rows());
    };
    const std::optional<uint64_t> rows = rows_of("token_embd.weight");
    if (!rows || !config_.is_known) return {};  // the code that loads the model reports this
    const std::string& path = files_.config()->path();
    if (config_.vocab_size != *rows) {
      return bad_model(path, "has vocab_size " + std::to_string(config_.vocab_size) + "; the embedding has " +
                                 std::to_string(*rows) + " rows");
    }
    if (!config_.is_tied && !rows_of("output.weight")) {
      return bad_model(
          path, "does not set tie_word_embeddings to true, but the tensor \"lm_head.weight\" is missing");
    }
    return {};
  }

  const ModelFiles& files_;
  FolderConfig config_;
  ModelContents model_;
  std::set<std::string> names_;
  std::map<std::string, SafetensorsTensor> scales_;  // of MXFP4, by name
  uint64_t hash_ = 0;
  uint64_t num_tensors_ = 0;
};

}  // namespace

Result<ModelContents> read_folder(const ModelFiles& files) {
  return FolderReader(files).read();
}

}  // namespace runnel
