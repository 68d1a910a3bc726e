#include "runner/commands/flag_groups.h"

#include "runner/commands/flag_values.h"

namespace runnel {

std::string complaint_of(const Result<void>& checked) {
  return checked ? std::string() : checked.error().message;
}

const CLI::Validator kWholeNumber(
    [](const std::string& text) { return complaint_of(check_whole_number(text)); }, "UINT64");

CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& is_on,
                        const std::string& description) {
  return command
      .add_option_function<std::string>(
          name, [&is_on](const std::string& value) { is_on = value == "on"; }, description)
      ->type_name("on|off")
      ->check(CLI::IsMember({"on", "off"}).description(""))
      ->default_str(is_on ? "on" : "off");
}

}  // namespace runnel
