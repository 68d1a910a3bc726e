#include "runner/commands/serve_command.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <optional>

#include "runner/commands/system_errors.h"
#include "runner/formats/quantize.h"
#include "runner/serving/channel.h"
#include "runner/serving/heartbeat.h"
#include "runner/serving/inbox.h"
#include "runner/serving/serve.h"
#include "runner/system/memory_file.h"
#include "runner/system/process_memory.h"

namespace runnel {
namespace {

constexpr uint32_t kProtocolVersion = 3;
constexpr const char* kGpuObstacle = "a GPU's driver opens files and starts threads when it likes";
constexpr std::chrono::milliseconds kLoadProgressInterval{100};

wire::FromRunner hello_from(const Backend& backend, const BackendFactory& factory,
                            const std::string& sandbox) {
  wire::FromRunner message;
  wire::Hello& hello = *message.mutable_hello();
  hello.set_protocol_version(kProtocolVersion);
  hello.set_kind(factory.kind);
  hello.set_build(RUNNEL_VERSION);
  hello.set_numerics_id(backend.numerics_id());
  hello.set_sandbox(sandbox);
  return message;
}

wire::FromRunner ready_from(const LoadedModel& loaded, const EngineFlags& flags) {
  const EngineConfig& config = loaded.engine->config();
  wire::FromRunner message;
  wire::Ready& ready = *message.mutable_ready();
  ready.set_model_identity(loaded.file.identity());
  ready.set_numerics_id(loaded.numerics_id());
  ready.set_architecture(loaded.model->config().architecture);
  ready.set_device(loaded.backend->device().name());
  ready.set_vocab_size(loaded.model->config().vocab_size);
  ready.set_max_model_len(config.max_model_len);
  ready.set_max_num_seqs(config.scheduler.max_num_seqs);
  ready.set_max_num_batched_tokens(config.scheduler.max_num_batched_tokens);
  ready.set_block_size(config.scheduler.block_size);
  ready.set_num_blocks(config.scheduler.num_blocks);
  ready.set_weights_bytes(loaded.weights_bytes);
  ready.set_kv_cache_bytes(loaded.kv_cache_bytes);
  ready.set_kv_cache_type(std::string(kv_type_name(flags.kv_cache_type)));
  ready.set_embedding_size(loaded.model->config().hidden_size);
  ready.set_scores_pairs(loaded.model->config().has_classifier);
  ready.set_num_ranks(loaded.backend->device().num_ranks());
  if (flags.weights_file != nullptr && flags.weights_file->is_sealed()) {
    ready.set_shared_weights_bytes(loaded.weights_bytes);
    if (flags.share_weights)
      ready.set_weights_descriptor(static_cast<uint32_t>(flags.weights_file->descriptor()));
  }
  return message;
}

// Sends LoadProgress at most once an interval, and at the end. Ignores errors of writing, since the heartbeat
// notices them.
LoadProgressFn progress_to(FrameWriter& writer) {
  return [&writer, last = std::chrono::steady_clock::time_point()](uint64_t loaded_bytes,
                                                                   uint64_t total_bytes) mutable {
    const auto now = std::chrono::steady_clock::now();
    if (now - last < kLoadProgressInterval && loaded_bytes < total_bytes) return;
    last = now;
    wire::FromRunner message;
    message.mutable_load_progress()->set_loaded_bytes(loaded_bytes);
    message.mutable_load_progress()->set_total_bytes(total_bytes);
    (void)writer.send(message);
  };
}

// Handles the commands that came while the model was loading. Returns true if the gateway wants no more.
Result<bool> take_early_commands(Inbox& inbox, Engine& engine) {
  const Inbox::Contents early = inbox.take();
  bool is_draining = early.end.has_value();
  for (const wire::ToRunner& command : early.commands) {
    if (command.has_generate()) return Error{ExitCode::kProtocol, "A Generate came before Ready."};
    if (command.has_embed()) return Error{ExitCode::kProtocol, "An Embed came before Ready."};
    if (command.has_vocabulary()) return Error{ExitCode::kProtocol, "A Vocabulary came before Ready."};
    is_draining |= command.has_drain();
    if (command.has_release_kv()) engine.release_kv(command.release_kv().descriptor());
  }
  if (early.end && !early.end->ok()) return early.end->error();
  return is_draining;
}

// Null if the flags do not ask for a recording.
Result<std::unique_ptr<Recorder>> make_recorder(const EngineFlags& flags, const ServeFlags& serve_flags) {
  if (serve_flags.record.empty()) return std::unique_ptr<Recorder>();
  std::error_code error;
  const std::filesystem::path model = std::filesystem::absolute(flags.model, error);
  if (error) {
    return Error{ExitCode::kNoFile, "--record needs the model's whole path, and the folder that " +
                                        flags.model + " is in cannot be found: " + error.message() +
                                        ". Give --model as an absolute path."};
  }
  wire::RecordingStart start;
  start.set_version(kRecordingVersion);
  start.set_model(model);
  start.set_threads(flags.num_threads);
  start.set_max_model_len(flags.max_model_len);
  start.set_max_num_seqs(flags.max_num_seqs);
  start.set_max_num_batched_tokens(flags.max_num_batched_tokens);
  start.set_block_size(flags.block_size);
  start.set_kv_cache_bytes(flags.kv_cache_bytes);
  start.set_kv_cache_type(std::string(kv_type_name(flags.kv_cache_type)));
  start.set_activations(std::string(activation_type_name(flags.activations)));
  start.set_mixed_batches(flags.mixed_batches);
  start.set_mixed_prefill_tokens(flags.mixed_prefill_tokens);
  start.set_rows_of_weights(flags.rows_of_weights);
  start.set_speculation(flags.speculation);
  start.set_reserves_next(flags.reserves_next);
  if (flags.quantize) start.set_quantize(quantize_type_name(*flags.quantize));
  return Recorder::open(serve_flags.record, serve_flags.record_max_bytes, start);
}

// Checks that the file is the one that the gateway has read. In another file's vocabulary, ids would mean
// other text.
Result<void> check_expected(const RegularFile& file, const std::string& expected) {
  const std::string found = file.identity();
  if (expected.empty() || found == expected) return {};
  return Error{ExitCode::kTryAgain,
               file.path() +
                   " is another file than the gateway has read: its size, time, inode and device are " +
                   found + ", and were " + expected + ". It was replaced in between and is read again."};
}

Error for_device(Error error, const std::string& device) {
  error.device = device;
  return error;
}

Result<void> serve_model(EngineFlags flags, const ServeFlags& serve_flags, const BackendFactory& factory,
                         FrameWriter& writer, Recorder* recorder) {
  // All files that are read later are opened before the sandbox is entered, and threads start after it, so
  // that the sandbox applies to all threads.
  const Result<ModelFiles> file = ModelFiles::open(flags.model);
  const Result<void> weights = flags.open_weights_file();
  if (const auto opened = flags.open_kv_memory(); !opened.ok()) return opened;
  if (const auto started = flags.start_ranks(writer.descriptor()); !started.ok()) return started;
  (void)private_memory_bytes();
  (void)available_memory_bytes();
  const Result<std::string> sandbox = factory.uses_gpu() ? enter_sandbox(serve_flags.sandbox, kGpuObstacle)
                                                         : enter_sandbox(serve_flags.sandbox);
  if (!sandbox.ok()) return sandbox.error();
  Result<std::unique_ptr<Backend>> backend = factory.make(flags.backend_options_for(file));
  if (flags.follows()) follow_leader(flags, file, std::move(backend));
  if (!backend.ok()) return backend.error();
  if (const auto sent = writer.send(hello_from(**backend, factory, *sandbox)); !sent.ok()) return sent;
  const std::string device = (*backend)->device().name();
  if (!file.ok()) return for_device(file.error(), device);
  if (const auto expected = check_expected(file->parts().front(), serve_flags.expected_file); !expected.ok())
    return for_device(expected.error(), device);
  if (!weights.ok()) return for_device(weights.error(), device);

  Inbox inbox;
  Vitals vitals;
  std::optional<CommandReader> reader;
  // With JSON, commands stay in the pipe until Ready, so that a script may write its lines at once without
  // waiting.
  if (!serve_flags.json_frames) reader.emplace(STDIN_FILENO, inbox, FrameForm::kBinary);
  const Heartbeat heartbeat(writer, vitals, inbox);
  const Result<LoadedModel> loaded =
      with_system_errors([&] { return load(flags, *file, *std::move(backend), progress_to(writer)); });
  if (!loaded.ok()) return for_device(loaded.error(), device);
  const Result<bool> is_over = take_early_commands(inbox, *loaded->engine);
  if (!is_over.ok()) return is_over.error();
  if (*is_over) return {};
  if (const auto sent = writer.send(ready_from(*loaded, flags)); !sent.ok()) return sent;
  if (serve_flags.json_frames) reader.emplace(STDIN_FILENO, inbox, FrameForm::kJson);
  return serve(*loaded->engine, inbox, writer, vitals, recorder);
}

}  // namespace

Result<void> serve_command(const EngineFlags& flags, const ServeFlags& serve_flags,
                           const BackendFactory& factory) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGINT, SIG_IGN);   // Ctrl-C in a terminal is for the gateway, which drains its runner
  std::signal(SIGPIPE, SIG_IGN);  // so that writing to a gateway that is gone is an error like others
  const Result<int> frames = take_stdout();
  if (!frames.ok()) return frames.error();
  const Result<std::unique_ptr<Recorder>> recorder =
      with_system_errors([&] { return make_recorder(flags, serve_flags); });
  FrameWriter writer(*frames, serve_flags.json_frames ? FrameForm::kJson : FrameForm::kBinary,
                     recorder.ok() ? recorder.value().get() : nullptr);
  const Result<void> end = with_system_errors([&]() -> Result<void> {
    if (!recorder.ok()) return recorder.error();
    return serve_model(flags, serve_flags, factory, writer, recorder.value().get());
  });
  // If writing is what failed, this fails too.
  if (!end.ok()) (void)send_failure(writer, end.error());
  return end;
}

void send_refusal(const Error& error, bool json_frames) {
  std::signal(SIGPIPE, SIG_IGN);
  FrameWriter writer(STDOUT_FILENO, json_frames ? FrameForm::kJson : FrameForm::kBinary);
  (void)send_failure(writer, error);
}

}  // namespace runnel
