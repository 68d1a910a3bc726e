// The groups of flags that commands have in common, and what their declarations share. CLI11 takes long to
// compile, so the sources that include this are compiled together.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "runner/commands/flags.h"

namespace runnel {

// The groups in the help.
inline constexpr const char* kModel = "Model";
inline constexpr const char* kDevices = "Devices";
inline constexpr const char* kScheduling = "Scheduling";
inline constexpr const char* kKvCache = "KV cache";
inline constexpr const char* kSampling = "Sampling";
inline constexpr const char* kInputOutput = "Input and output";
inline constexpr const char* kSecurity = "Security";
inline constexpr const char* kDebugging = "Debugging";
inline constexpr const char* kMeasurement = "Measurement";
inline constexpr const char* kGeneral = "General";

// The result of a check as CLI11 wants it: empty, or what is wrong.
std::string complaint_of(const Result<void>& checked);

// This check is needed because CLI11 reads a number that exceeds 64 bits as the largest one that fits.
extern const CLI::Validator kWholeNumber;

// Returns the value, or throws the exception by which CLI11 learns that a value is wrong.
template <typename T>
T or_throw(const std::string& flag, const Result<T>& value) {
  if (!value) throw CLI::ValidationError(flag, value.error().message);
  return *value;
}

CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& is_on,
                        const std::string& description);
CLI::Option* add_prompt_flag(CLI::App& command, std::vector<uint32_t>& ids);
CLI::Option* add_num_seqs_flag(CLI::App& command, EngineFlags& flags);
void add_model_flags(CLI::App& command, Flags& flags);
void add_engine_flags(CLI::App& command, EngineFlags& flags, bool uses_gpu);
// Also for the command that lists the devices.
CLI::Option* add_gpu_device_flag(CLI::App& command, EngineFlags& flags);
// The flags of the device, and those of what lies in its memory. Follows add_engine_flags().
void add_device_flags(CLI::App& command, EngineFlags& flags, bool uses_gpu);
// What draws choose from, for commands that draw.
std::vector<CLI::Option*> add_draw_flags(CLI::App& command, SamplingParams& sampling);
void add_generate_flags(CLI::App& command, GenerateFlags& flags);
void add_serve_flags(CLI::App& command, ServeFlags& flags);
void add_replay_flags(CLI::App& command, ReplayFlags& flags);
void add_bench_flags(CLI::App& command, Flags& flags);

}  // namespace runnel
