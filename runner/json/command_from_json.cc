#include "runner/json/command_from_json.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "runner/formats/quoted.h"

namespace runnel {
namespace {

using nlohmann::json;

// Of arrays and objects inside each other: {"generate":{"sampling":{"logit_bias":[{}]}}}.
constexpr int kMaxDepth = 5;

// The fields of one object, taken by name one after the other; one that nobody took is unknown. The first
// fault found is kept.
class Fields {
 public:
  Fields(const json& value, std::string path, std::string& fault)
      : value_(value), path_(std::move(path)), fault_(fault) {
    if (!value_.is_object()) fail(path_, "must be an object");
  }

  template <typename Set>
  void whole32(const std::string& name, Set set) {
    if (const json* value = take(name)) set(whole32_of(*value, path_of(name)));
  }
  template <typename Add>
  void whole32s(const std::string& name, Add add) {
    each(name, [&](const json& item, const std::string& path) { add(whole32_of(item, path)); });
  }
  template <typename Set>
  void whole64(const std::string& name, Set set) {
    if (const json* value = take(name)) set(whole64_of(*value, path_of(name)));
  }
  template <typename Set>
  void single(const std::string& name, Set set) {
    const json* value = take(name);
    if (value == nullptr) return;
    if (!value->is_number()) return fail(path_of(name), "must be a number");
    set(static_cast<float>(value->get<double>()));
  }
  template <typename Read>
  void object(const std::string& name, Read read) {
    if (const json* value = take(name)) read_object(*value, path_of(name), read);
  }
  template <typename Read>
  void objects(const std::string& name, Read read) {
    each(name, [&](const json& item, const std::string& path) { read_object(item, path, read); });
  }

  void refuse_the_rest() {
    if (!value_.is_object()) return;
    for (const auto& [name, value] : value_.items())
      if (!taken_.contains(name)) fail(path_of(runnel::quoted(name)), "is not in the protocol");
  }

 private:
  std::string path_of(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }

  void fail(const std::string& path, const std::string& sentence) {
    if (fault_.empty()) fault_ = path + " " + sentence + ".";
  }

  const json* take(const std::string& name) {
    taken_.insert(name);
    const auto found = value_.find(name);
    return found == value_.end() ? nullptr : &*found;
  }

  template <typename Use>
  void each(const std::string& name, Use use) {
    const json* values = take(name);
    if (values == nullptr) return;
    if (!values->is_array()) return fail(path_of(name), "must be an array");
    size_t index = 0;
    for (const json& item : *values) use(item, path_of(name) + "[" + std::to_string(index++) + "]");
  }

  template <typename Read>
  void read_object(const json& value, const std::string& path, Read read) {
    Fields fields(value, path, fault_);
    read(fields);
    fields.refuse_the_rest();
  }

  uint32_t whole32_of(const json& value, const std::string& path) {
    constexpr uint64_t kMax = std::numeric_limits<uint32_t>::max();
    if (value.is_number_unsigned() && value.get<uint64_t>() <= kMax) return value.get<uint32_t>();
    fail(path, "must be a whole number from 0 to 4294967295");
    return 0;
  }

  uint64_t whole64_of(const json& value, const std::string& path) {
    if (value.is_number_unsigned()) return value.get<uint64_t>();
    if (const auto* text = value.get_ptr<const std::string*>()) {
      uint64_t number = 0;
      const char* const text_end = text->data() + text->size();
      const auto [end, error] = std::from_chars(text->data(), text_end, number);
      if (error == std::errc() && end == text_end) return number;
    }
    fail(path, "must be a whole number from 0 to 18446744073709551615, or a string of one");
    return 0;
  }

  const json& value_;
  std::string path_;
  std::string& fault_;
  std::set<std::string> taken_;
};

void read_logit_bias(Fields& fields, wire::LogitBias& entry) {
  fields.whole32("token_id", [&](uint32_t value) { entry.set_token_id(value); });
  fields.single("bias", [&](float value) { entry.set_bias(value); });
}

void read_sampling(Fields& fields, wire::Sampling& sampling) {
  fields.single("temperature", [&](float value) { sampling.set_temperature(value); });
  fields.whole32("top_k", [&](uint32_t value) { sampling.set_top_k(value); });
  fields.single("top_p", [&](float value) { sampling.set_top_p(value); });
  fields.single("min_p", [&](float value) { sampling.set_min_p(value); });
  fields.single("repetition_penalty", [&](float value) { sampling.set_repetition_penalty(value); });
  fields.whole64("seed", [&](uint64_t value) { sampling.set_seed(value); });
  fields.single("presence_penalty", [&](float value) { sampling.set_presence_penalty(value); });
  fields.single("frequency_penalty", [&](float value) { sampling.set_frequency_penalty(value); });
  fields.objects("logit_bias", [&](Fields& entry) { read_logit_bias(entry, *sampling.add_logit_bias()); });
}

void read_generate(Fields& fields, wire::Generate& generate) {
  fields.whole32("request_id", [&](uint32_t value) { generate.set_request_id(value); });
  fields.whole32s("token_ids", [&](uint32_t value) { generate.add_token_ids(value); });
  fields.whole32("num_emitted", [&](uint32_t value) { generate.set_num_emitted(value); });
  fields.whole32("max_tokens", [&](uint32_t value) { generate.set_max_tokens(value); });
  fields.whole32s("stop_ids", [&](uint32_t value) { generate.add_stop_ids(value); });
  fields.object("sampling", [&](Fields& sampling) { read_sampling(sampling, *generate.mutable_sampling()); });
  fields.whole32("top_logprobs", [&](uint32_t value) { generate.set_top_logprobs(value); });
}

void read_request_id(Fields& fields, auto& message) {
  fields.whole32("request_id", [&](uint32_t value) { message.set_request_id(value); });
}

void read_command(Fields& fields, wire::ToRunner& command) {
  fields.object("generate", [&](Fields& members) { read_generate(members, *command.mutable_generate()); });
  fields.object("cancel", [&](Fields& members) { read_request_id(members, *command.mutable_cancel()); });
  fields.object("pause", [&](Fields& members) { read_request_id(members, *command.mutable_pause()); });
  fields.object("resume", [&](Fields& members) { read_request_id(members, *command.mutable_resume()); });
  fields.object("drain", [&](Fields&) { command.mutable_drain(); });
}

}  // namespace

Result<wire::ToRunner> command_from_json(std::string_view text) {
  bool is_too_deep = false;
  const json value = json::parse(
      text,
      [&](int depth, json::parse_event_t, const json&) {
        is_too_deep |= depth > kMaxDepth;
        return !is_too_deep;
      },
      /*allow_exceptions=*/false);
  if (is_too_deep || !value.is_object() || value.size() != 1) {
    return Error{ExitCode::kProtocol,
                 runnel::quoted(text) + " is not a JSON object with one member, such as {\"drain\":{}}."};
  }
  wire::ToRunner command;
  std::string fault;
  Fields fields(value, "", fault);
  read_command(fields, command);
  fields.refuse_the_rest();
  if (!fault.empty()) return Error{ExitCode::kProtocol, fault};
  return command;
}

}  // namespace runnel
