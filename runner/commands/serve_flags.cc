#include <limits>

#include "runner/commands/flag_groups.h"
#include "runner/commands/flag_values.h"

namespace runnel {
namespace {

const CLI::Validator kFileIdentity(
    [](const std::string& text) { return complaint_of(check_file_identity(text)); }, "");

}  // namespace

void add_serve_flags(CLI::App& command, ServeFlags& flags) {
  command
      .add_option(
          "--expect-file", flags.expected_file,
          "Refuse any other file at the model's path: size, modification time in ns, inode and device")
      ->type_name("SIZE-TIME-INODE-DEVICE")
      ->check(kFileIdentity)
      ->group(kModel);
  command
      .add_flag("--json-frames", flags.json_frames,
                "One JSON object per line instead of frames, in both directions")
      ->group(kInputOutput);
  CLI::Option* const record =
      command.add_option("--record", flags.record, "Record all messages to this file, for replay")
          ->type_name("FILE")
          ->group(kDebugging);
  // A replay begins with an empty cache.
  if (CLI::Option* const kv_fd = command.get_option_no_throw("--kv-fd")) record->excludes(kv_fd);
  command.add_option("--record-max-bytes", flags.record_max_bytes, "Maximum size of the recording")
      ->type_name("BYTES")
      ->check(kWholeNumber)
      ->check(CLI::Range(kMinRecordMaxBytes, std::numeric_limits<uint64_t>::max()))
      ->capture_default_str()
      ->group(kDebugging);
  command
      .add_option_function<std::string>(
          "--sandbox",
          [&flags](const std::string& name) {
            flags.sandbox = or_throw("--sandbox", sandbox_mode_from(name));
          },
          "strict: refuse to start without all parts of the sandbox; auto: use the parts that the kernel has")
      ->type_name("strict|auto|off")
      ->default_str(std::string(sandbox_mode_name(flags.sandbox)))
      ->group(kSecurity);
}

void add_replay_flags(CLI::App& command, ReplayFlags& flags) {
  command.add_option("FILE", flags.file, "Recording that serve --record wrote")->type_name("")->required();
  command.add_option("--model", flags.model, "Path of the model, if it is no longer where it was")
      ->type_name("PATH")
      ->group(kModel);
  command.add_option("--until", flags.until_step, "Last step to compute")
      ->check(kWholeNumber)
      ->check(CLI::Range(uint64_t{1}, std::numeric_limits<uint64_t>::max()))
      ->default_str("all")
      ->group(kDebugging);
}

}  // namespace runnel
