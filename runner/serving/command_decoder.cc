#include "runner/serving/command_decoder.h"

#include "runner/json/command_from_json.h"

namespace runnel {
namespace {

std::variant<FrameDecoder, LineDecoder> decoder_of(FrameForm form) {
  if (form == FrameForm::kJson) return LineDecoder(kMaxToRunnerBytes);
  return FrameDecoder(kMaxToRunnerBytes);
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

}  // namespace

CommandDecoder::CommandDecoder(FrameForm form) : decoder_(decoder_of(form)) {}

Result<std::optional<wire::ToRunner>> CommandDecoder::next(std::span<const std::byte>& bytes) {
  while (true) {
    const Result<bool> is_whole =
        std::visit([&](auto& decoder) { return decoder.next(bytes, message_); }, decoder_);
    if (!is_whole.ok()) return is_whole.error();
    if (!*is_whole) return std::optional<wire::ToRunner>();
    if (std::holds_alternative<FrameDecoder>(decoder_)) {
      Result<wire::ToRunner> command = parse_message<wire::ToRunner>(message_);
      if (!command.ok()) return command.error();
      return std::optional(*std::move(command));
    }
    ++num_lines_;
    if (is_blank(message_)) continue;  // somebody pressed enter
    Result<wire::ToRunner> command = command_from_json(message_);
    if (command.ok()) return std::optional(*std::move(command));
    return Error{ExitCode::kProtocol, "Line " + std::to_string(num_lines_) + ": " + command.error().message};
  }
}

Result<void> CommandDecoder::finish() const {
  return std::visit([](const auto& decoder) { return decoder.finish(); }, decoder_);
}

}  // namespace runnel
