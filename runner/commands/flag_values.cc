#include "runner/commands/flag_values.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "runner/formats/quantize.h"
#include "runner/formats/tensor.h"

namespace runnel {
namespace {

constexpr uint32_t kMaxGpuDevice = 255;
constexpr uint32_t kMaxMadeUpNodes = 8;

Error bad_value(const std::string& sentence) {
  return Error{ExitCode::kUsage, sentence};
}

template <typename T>
Result<T> known(const std::optional<T>& value, const std::string& name, const std::string& names) {
  if (!value) return bad_value(name + " is not supported; it must be one of " + names);
  return *value;
}

}  // namespace

Result<void> check_whole_number(const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return {};
  return bad_value(text + " is not a whole number of 64 bits");
}

Result<void> check_file_identity(const std::string& text) {
  const bool is_number_list = text.find_first_not_of("0123456789-") == std::string::npos;
  if (is_number_list && std::ranges::count(text, '-') >= 3) return {};
  return bad_value(text + " is not SIZE-TIME-INODE-DEVICE, four whole numbers");
}

Result<uint32_t> kvcache_blocks_from(const std::string& text) {
  if (text == "-1") return uint32_t{0};
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error == std::errc() && end == text.data() + text.size() && count > 0) return count;
  return bad_value(text + " is neither -1 nor a whole number from 1 to 4294967295");
}

Result<uint32_t> gpu_number_from(const std::string& text) {
  if (text == "-1" || text == "cpu")
    return bad_value(text +
                     " is the CPU, where cpu-runner computes; here it is the number of a GPU, from 0 on");
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number <= kMaxGpuDevice) return number;
  return bad_value(text + " is not a whole number from 0 to " + std::to_string(kMaxGpuDevice));
}

Result<TensorType> quantize_type_from(const std::string& name) {
  return known(quantize_type_named(name), name, "q8_0, q4_0");
}

Result<TensorType> tensor_type_from(const std::string& name) {
  return known(tensor_type_named(name), name, tensor_type_names());
}

Result<KvType> kv_type_from(const std::string& name) {
  return known(kv_type_named(name), name, kv_type_names());
}

Result<ActivationType> activation_type_from(const std::string& name, bool uses_gpu) {
  const Result<ActivationType> type = known(activation_type_named(name), name, activation_type_names());
  if (type && uses_gpu && *type != ActivationType::kI8)
    return bad_value(name + " is what cpu-runner alone computes with; here it is i8");
  return type;
}

Result<uint32_t> numa_nodes_from(const std::string& text) {
  if (text == "auto") return uint32_t{0};
  if (text == "off") return uint32_t{1};
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  if (is_number && count >= 1 && count <= kMaxMadeUpNodes) return count;
  return bad_value(text + " is neither auto nor off nor a whole number from 1 to " +
                   std::to_string(kMaxMadeUpNodes));
}

Result<SandboxMode> sandbox_mode_from(const std::string& name) {
  return known(sandbox_mode_named(name), name, std::string(kSandboxModeNames));
}

Result<LogitBias> bias_from(const std::string& text) {
  const Error refusal = bad_value(text + " is not ID=BIAS, such as 42=-1.5");
  LogitBias entry;
  const char* const end = text.data() + text.size();
  const auto [id_end, id_error] = std::from_chars(text.data(), end, entry.token_id);
  if (id_error != std::errc() || id_end == end || *id_end != '=') return refusal;
  const auto [bias_end, bias_error] = std::from_chars(id_end + 1, end, entry.bias);
  if (bias_error != std::errc() || bias_end != end) return refusal;
  return entry;
}

Result<std::vector<uint32_t>> ids_from(const std::string& text) {
  std::vector<uint32_t> ids;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data();; ++at) {
    const auto [id_end, error] = std::from_chars(at, end, ids.emplace_back());
    if (error != std::errc() || (id_end != end && *id_end != ','))
      return bad_value("\"" + text + "\" is not a list of ids, such as 1,2,3");
    if (id_end == end) return ids;
    at = id_end;
  }
}

}  // namespace runnel
