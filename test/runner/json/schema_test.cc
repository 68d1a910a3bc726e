// JSON and protobuf frames give each other, by byte vectors that have every field of every message. A test
// reads the schema to check that no field is missing.
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "runner/json/command_from_json.h"
#include "runner/json/event_to_json.h"
#include "test/fixtures/frame_vectors.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using nlohmann::json;
using Schema = std::map<std::string, std::map<std::string, std::string>>;  // message, field, type

Schema read_schema() {
  std::ifstream file(RUNNEL_SOURCE_DIR "/proto/runner.proto");
  const std::regex message_line(R"(message (\w+) \{)");
  const std::regex field_line(R"(\s+(?:optional |repeated )?(\w+) (\w+) = \d+;)");
  Schema schema;
  std::string message;
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (std::regex_match(line, match, message_line)) message = match[1];
    if (std::regex_match(line, match, field_line)) schema[message][match[2]] = match[1];
  }
  return schema;
}

using FieldNames = std::set<std::string>;

void add_fields_of(const Schema& schema, const std::string& message, FieldNames& names) {
  for (const auto& [field, type] : schema.at(message)) {
    names.insert(message + "." + field);
    if (schema.contains(type)) add_fields_of(schema, type, names);
  }
}

void add_members_of(const Schema& schema, const json& object, const std::string& message, FieldNames& names) {
  for (const auto& [field, value] : object.items()) {
    names.insert(message + "." + field);
    const auto& fields = schema.at(message);
    REQUIRE_MESSAGE(fields.contains(field), message, " has no field ", field);
    const std::string& type = fields.at(field);
    if (!schema.contains(type)) continue;
    const json values = value.is_array() ? value : json::array({value});
    for (const json& item : values) add_members_of(schema, item, type, names);
  }
}

}  // namespace

TEST_CASE("json frames: every field of every message has its vector") {
  Schema schema = read_schema();
  schema.try_emplace("Drain");
  FieldNames in_schema;
  FieldNames in_vectors;
  for (const std::string message : {"ToRunner", "FromRunner"}) {
    add_fields_of(schema, message, in_schema);
    for (const json& vector : frame_vectors()) {
      const bool is_of_message = (vector["direction"] == "to_runner") == (message == "ToRunner");
      if (!is_of_message || !vector.contains("json")) continue;
      add_members_of(schema, vector["json"][0], message, in_vectors);
    }
  }
  CHECK(in_schema.size() > 50);
  CHECK(in_schema == in_vectors);
}

TEST_CASE("json frames: a command in JSON is the command in protobuf, an event the other way round") {
  uint32_t num_checked = 0;
  for (const json& vector : frame_vectors()) {
    if (!vector.contains("json")) continue;
    CAPTURE(vector["name"].get<std::string>());
    const std::string bytes = from_hex(vector["frames"][0]);
    ++num_checked;
    if (vector["direction"] == "to_runner") {
      const Result<wire::ToRunner> command = command_from_json(vector["json"][0].dump());
      REQUIRE(command.ok());
      CHECK(command->SerializeAsString() == parse_message<wire::ToRunner>(bytes).value().SerializeAsString());
    } else {
      CHECK(json::parse(event_to_json(parse_message<wire::FromRunner>(bytes).value())) == vector["json"][0]);
    }
  }
  CHECK(num_checked == 23);
}

}  // namespace runnel
