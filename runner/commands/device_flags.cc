#include <unistd.h>

#include <limits>

#include "runner/commands/flag_groups.h"
#include "runner/commands/flag_values.h"
#include "runner/system/processors.h"

namespace runnel {
namespace {

constexpr int kMaxDescriptor = 1 << 20;
constexpr uint32_t kMaxRunners = 16;
constexpr double kMinUtilization = 0.001;

void add_activations_flag(CLI::App& command, EngineFlags& flags, bool uses_gpu) {
  command
      .add_option_function<std::string>(
          "--activations",
          [&flags, uses_gpu](const std::string& name) {
            flags.activations = or_throw("--activations", activation_type_from(name, uses_gpu));
          },
          "Activations in matrix products; i8: 8 bits, with a scale for each 32 values; f32: not rounded, "
          "slower, only on the CPU")
      ->type_name("i8|f32")
      ->default_str(std::string(activation_type_name(flags.activations)))
      ->group(kDevices);
}

void add_weights_file_flags(CLI::App& command, EngineFlags& flags) {
  CLI::Option* const share =
      command
          .add_flag("--share-weights", flags.share_weights,
                    "Pack the weights into a sealed file in memory, which other runners can use")
          ->group(kModel);
  command
      .add_option("--weights-fd", flags.weights_fd,
                  "Descriptor of such a file with this model's weights, which are then not packed again")
      ->type_name("N")
      ->check(CLI::Range(STDERR_FILENO + 1, kMaxDescriptor))
      ->excludes(share)
      ->group(kModel);
}

void refuse_weights_file_flags(CLI::App& command) {
  for (const char* name : {"--share-weights", "--weights-fd"}) {
    command
        .add_option_function<std::string>(
            name,
            [name](const std::string&) {
              throw CLI::ValidationError(name,
                                         "is for cpu-runner; cuda-runner keeps the weights on its device");
            })
        ->expected(0, 1)
        ->group("");
  }
}

void add_cpu_flags(CLI::App& command, EngineFlags& flags) {
  add_weights_file_flags(command, flags);
  command.add_option("--threads", flags.num_threads, "Threads that compute")
      ->check(CLI::Range(1u, kMaxThreads))
      ->default_str("one for each usable core, shared among --runners")
      ->group(kDevices);
  command
      .add_option_function<std::string>(
          "--numa",
          [&flags](const std::string& text) { flags.num_nodes = or_throw("--numa", numa_nodes_from(text)); },
          "NUMA nodes, each with a part of the weights and threads that are bound to it; auto: those of the "
          "machine; off: one; N: so many made up by dividing the threads, which are bound to nothing")
      ->type_name("auto|off|N")
      ->default_str("auto")
      ->group(kDevices);
  command.add_option("--isa", flags.isa, "Instruction set")
      ->type_name("portable|avx2|avxvnni|avx512vnni|dotprod|i8mm")
      ->default_str("the best that the processor has")
      ->group(kDevices);
  command
      .add_option(
          "--memory-bytes", flags.memory_bytes,
          "Memory of the whole process, in place of --kv-cache-bytes: the KV cache gets what the model "
          "and a 32nd for requests leave")
      ->type_name("BYTES")
      ->check(kWholeNumber)
      ->check(CLI::Range(uint64_t{1}, std::numeric_limits<uint64_t>::max()))
      ->excludes(command.get_option("--kv-cache-bytes"))
      ->excludes(command.get_option("--num-kvcache-blocks"))
      ->group(kKvCache);
  command
      .add_option(
          "--kv-fd", flags.kv_fd,
          "Descriptor of a memfd of fixed size that holds the KV cache, which the next process that is "
          "given it takes over")
      ->type_name("N")
      ->check(CLI::Range(3, kMaxDescriptor))
      ->group(kKvCache);
  command
      .add_option("--kv-from", flags.kv_from,
                  "Descriptors of such memory of other runners, in which blocks of a request that comes from "
                  "there are looked for")
      ->type_name("N")
      ->check(CLI::Range(3, kMaxDescriptor))
      ->needs(command.get_option("--kv-fd"))
      ->group(kKvCache);
  command
      .add_option_function<std::string>("--gpu-memory-utilization",
                                        [](const std::string&) {
                                          throw CLI::ValidationError(
                                              "--gpu-memory-utilization",
                                              "is a share of a GPU's memory; use --memory-bytes");
                                        })
      ->group("");
}

void add_gpu_flags(CLI::App& command, EngineFlags& flags) {
  refuse_weights_file_flags(command);
  add_gpu_device_flag(command, flags);
  command
      .add_flag("--enforce-eager", flags.enforce_eager,
                "Launch each kernel by itself instead of in CUDA graphs")
      ->group(kDevices);
  command
      .add_flag("--fewer-gpus", flags.fewer_gpus,
                "Compute with half as many GPUs, and so on, if one of --tensor-parallel-size cannot be used")
      ->group(kDevices);
  command
      .add_option_function<std::string>(
          "--all-gather-backend",
          [&flags](const std::string& name) { flags.gathers_by_nccl = name == "nccl"; },
          "How the GPUs of --tensor-parallel-size exchange results; copies: each copies those of the others; "
          "nccl: the all-gather of NCCL, whose library libnccl.so.2 must be installed")
      ->type_name("copies|nccl")
      ->check(CLI::IsMember({"copies", "nccl"}))
      ->default_str("copies")
      ->group(kDevices);
  command
      .add_flag_callback(
          "--start-times", [&flags] { flags.start_times = std::make_shared<StartTimes>(); },
          "Print to stderr how long each part of the start took, and each capture of a graph")
      ->group(kDebugging);
  command
      .add_option("--await-free-bytes", flags.await_free_bytes,
                  "Wait until each GPU has this many free bytes, 10 s at most: what a dead runner held there")
      ->type_name("BYTES")
      ->check(kWholeNumber)
      ->group(kKvCache);
  command
      .add_option("--gpu-memory-utilization", flags.gpu_memory_utilization,
                  "Share of the device's memory for everything on it, other programs included, in place of "
                  "--kv-cache-bytes: the KV cache gets what is left after a first step")
      ->type_name("SHARE")
      ->default_str("0.9")
      ->check(CLI::Range(kMinUtilization, 1.0))
      ->excludes(command.get_option("--kv-cache-bytes"))
      ->excludes(command.get_option("--num-kvcache-blocks"))
      ->group(kKvCache);
}

}  // namespace

CLI::Option* add_gpu_device_flag(CLI::App& command, EngineFlags& flags) {
  return command
      .add_option_function<std::string>(
          "--gpu-device",
          [&flags](const std::string& text) {
            flags.gpu_device = or_throw("--gpu-device", gpu_number_from(text));
          },
          "Number of the GPU, as `devices` lists it")
      ->type_name("N")
      ->default_str(std::to_string(flags.gpu_device))
      ->group(kDevices);
}

void add_device_flags(CLI::App& command, EngineFlags& flags, bool uses_gpu) {
  add_activations_flag(command, flags, uses_gpu);
  command
      .add_option("--runners", flags.num_runners,
                  "Runners with this model on this machine or GPU; each takes at most an equal part of the "
                  "memory, or of what shared weights leave of it")
      ->check(CLI::Range(1u, kMaxRunners))
      ->capture_default_str()
      ->group(kKvCache);
  if (uses_gpu) {
    add_gpu_flags(command, flags);
  } else {
    add_cpu_flags(command, flags);
  }
}

}  // namespace runnel
