// Values of a config.json, handed on under GGUF's keys. Internal to formats/.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "runner/formats/folder_config.h"
#include "runner/result.h"

namespace runnel {

class FolderValues {
 public:
  // The configuration, an object, outlives this.
  FolderValues(const nlohmann::json& config, std::string architecture, std::string path);

  const nlohmann::json& config() const { return config_; }
  const std::string& architecture() const { return found_.architecture; }
  FolderConfig& found() { return found_; }

  // The value of a name; nullptr where it is missing or null, or the other is no object.
  static const nlohmann::json* find_in(const nlohmann::json& object, const char* name);
  const nlohmann::json* find(const char* name) const { return find_in(config_, name); }
  // A whole number that is not negative; nothing where there is none.
  std::optional<uint64_t> count(const char* name) const;
  // A number, of the first object that has the name; nothing where it is no number there.
  static std::optional<double> number_in(std::initializer_list<const nlohmann::json*> objects,
                                         const char* name);
  // Whether it is there and not false.
  bool is_true(const char* name) const;

  // "llama.block_count" of "block_count".
  std::string key_of(const char* name) const { return found_.architecture + "." + name; }
  void put(std::string key, GgufValue value);
  // As it is, under a key of the architecture; nothing where it is missing.
  void copy(const char* name, const char* key);
  // As a number with a fraction, of which JSON writes some without.
  void put_number(const nlohmann::json* value, const char* key);

  // "PATH sentence.": the first one is what finish fails with.
  void refuse(const std::string& sentence);
  Result<FolderConfig> finish() const;

 private:
  const nlohmann::json& config_;
  const std::string path_;
  FolderConfig found_;
  Result<void> status_;
};

// What rotates heads: rope_parameters of newer configurations, rope_theta and rope_scaling of older ones.
void read_folder_rope(FolderValues& values);

}  // namespace runnel
