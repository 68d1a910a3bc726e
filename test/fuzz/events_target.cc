// The frames that a runner sends. This target only decodes them, as replay does. The mutations are meant for
// the gateway, which reads the output of `fuzz-events --write` (test/fuzz/gateway-frames.test.ts).
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "runner/engine/engine.h"
#include "runner/serving/frame.h"
#include "runner/serving/messages.h"
#include "runner/serving/session.h"
#include "test/fuzz/command_streams.h"
#include "test/fuzz/frame_mutator.h"
#include "test/fuzz/target.h"

namespace runnel::fuzz {
namespace {

const SchedulerConfig kScheduler{
    .max_num_batched_tokens = 16, .max_num_seqs = 4, .block_size = 8, .num_blocks = 40};

// The frames that sessions do not send, each once, with every field.
std::vector<wire::FromRunner> frames_around_a_session() {
  std::vector<wire::FromRunner> events(6);
  wire::Hello& hello = *events[0].mutable_hello();
  hello.set_protocol_version(3);
  hello.set_kind("cpu");
  hello.set_build("0.1.0");
  hello.set_numerics_id("cpu-1");
  hello.set_sandbox("landlock+mdwe+seccomp");
  events[1].mutable_load_progress()->set_loaded_bytes(1000);
  events[1].mutable_load_progress()->set_total_bytes(uint64_t{1} << 40);
  wire::Ready& ready = *events[2].mutable_ready();
  ready.set_model_identity("xxh3-0");
  ready.set_architecture("llama");
  ready.set_device("cpu");
  ready.set_vocab_size(kFakeVocabSize);
  ready.set_max_model_len(100);
  ready.set_max_num_seqs(4);
  ready.set_max_num_batched_tokens(16);
  ready.set_block_size(8);
  ready.set_num_blocks(40);
  ready.set_weights_bytes(1 << 20);
  ready.set_kv_cache_bytes(1 << 20);
  ready.set_kv_cache_type("f16");
  ready.set_embedding_size(kFakeHiddenSize);
  wire::Heartbeat& heartbeat = *events[3].mutable_heartbeat();
  heartbeat.set_phase(wire::PHASE_MIXED);
  heartbeat.set_step(7);
  heartbeat.set_num_requests(2);
  heartbeat.set_num_free_blocks(3);
  wire::Stats& stats = *events[4].mutable_stats();
  stats.set_num_waiting(1);
  stats.set_num_finished(9);
  stats.set_busy_us(123456789);
  stats.set_memory_bytes(uint64_t{1} << 33);
  events[5].mutable_failure()->set_exit_code(65);
  events[5].mutable_failure()->set_message("The file is damaged.");
  return events;
}

std::vector<wire::FromRunner> events_of(const std::vector<wire::ToRunner>& commands) {
  FakeModel model(kScheduler.block_size, kScheduler.num_blocks, kScheduler.max_num_batched_tokens);
  Engine engine(model, {.max_model_len = 100, .scheduler = kScheduler});
  Vitals vitals;
  std::vector<wire::FromRunner> events;
  Session session(engine, vitals, [&](const wire::FromRunner& event) {
    events.push_back(event);
    return Result<void>();
  });
  for (const wire::ToRunner& command : commands) {
    CHECK(session.obey(command).ok());
    if (session.has_work()) CHECK(session.step().ok());
  }
  session.end_commands();
  while (session.has_work()) CHECK(session.step().ok());
  return events;
}

}  // namespace

std::vector<std::string> seed_corpus() {
  constexpr size_t kEventsOfAStream = 24;
  std::vector<std::string> corpus;
  for (const std::vector<wire::ToRunner>& stream : command_streams()) {
    std::vector<wire::FromRunner> events = frames_around_a_session();
    const std::vector<wire::FromRunner> answers = events_of(stream);
    events.insert(events.end() - 1, answers.begin(),
                  answers.begin() + static_cast<std::ptrdiff_t>(std::min(answers.size(), kEventsOfAStream)));
    std::string bytes;
    for (const wire::FromRunner& event : events) append_frame(event.SerializeAsString(), bytes);
    corpus.push_back(bytes);
  }
  return corpus;
}

std::string_view unit_name() {
  return "frames towards the gateway";
}

}  // namespace runnel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace runnel;
  // Otherwise protobuf prints an error for each string that is not UTF-8.
  static const google::protobuf::LogSilencer silence;
  std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  FrameDecoder decoder(kMaxFromRunnerBytes);
  std::string message;
  while (true) {
    const Result<bool> is_whole = decoder.next(bytes, message);
    if (!is_whole.ok()) {
      fuzz::tell_outcome(is_whole.error().message);
      return 0;
    }
    if (!*is_whole) return 0;
    const Result<wire::FromRunner> event = parse_message<wire::FromRunner>(message);
    fuzz::tell_outcome(event.ok() ? std::string(1, static_cast<char>('A' + event->message_case()))
                                  : event.error().message);
  }
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  runnel::fuzz::Random random(seed);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  runnel::fuzz::mutate_frames(bytes, random);
  bytes.resize(std::min(bytes.size(), max_size));
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
