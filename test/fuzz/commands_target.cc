// The input of a runner's stdin: it is cut into frames, decoded, checked and obeyed, with steps of the fake
// model in between. The runner's answers must follow the protocol for any input.
#include <algorithm>
#include <cstring>
#include <map>
#include <span>

#include "runner/engine/engine.h"
#include "runner/serving/command_decoder.h"
#include "runner/serving/frame.h"
#include "runner/serving/session.h"
#include "test/fuzz/command_streams.h"
#include "test/fuzz/frame_mutator.h"
#include "test/fuzz/target.h"

namespace runnel::fuzz {
namespace {

// The limits are so small that requests compete for blocks and rows.
const SchedulerConfig kScheduler{
    .max_num_batched_tokens = 16, .max_num_seqs = 4, .block_size = 8, .num_blocks = 20};
constexpr uint32_t kContext = 100;
// The number of steps after the last command. Requests that are still open are then cancelled.
constexpr int kMaxLastSteps = 24;

// Stands for a request that gets a vector, in place of the index of its next token.
constexpr uint32_t kOfVector = ~0u;

// Checks the answers as a gateway does.
class Listener {
 public:
  // num_emitted may be kOfVector.
  void accepted(uint32_t request_id, uint32_t num_emitted) { next_index_[request_id] = num_emitted; }
  bool is_open(uint32_t request_id) const { return next_index_.contains(request_id); }
  std::vector<uint32_t> open_requests() const {
    std::vector<uint32_t> ids;
    for (const auto& [request_id, index] : next_index_) ids.push_back(request_id);
    return ids;
  }

  void hear(const wire::FromRunner& event) {
    if (event.ByteSizeLong() > kMaxFromRunnerBytes) finding("A frame from the runner is over its limit.");
    for (const wire::Output& output : event.step().outputs()) hear_output(output);
    if (event.has_embedding()) hear_vector(event.embedding());
    if (!event.has_request_error()) return;
    if (event.request_error().code() == wire::ERROR_CODE_UNSPECIFIED) finding("An error without a code.");
    next_index_.erase(event.request_error().request_id());
    last_error_ = event.request_error();
  }

  std::string take_error() {
    const std::string message = last_error_ ? last_error_->message() : "obeyed";
    last_error_.reset();
    return message;
  }

 private:
  void hear_vector(const wire::Embedding& embedding) {
    const auto open = next_index_.find(embedding.request_id());
    if (open == next_index_.end() || open->second != kOfVector) finding("A vector that nobody asked for.");
    if (embedding.values_size() != int{kFakeHiddenSize}) finding("A vector of another length.");
    next_index_.erase(open);
  }
  void hear_output(const wire::Output& output) {
    const auto open = next_index_.find(output.request_id());
    if (open == next_index_.end()) finding("An output for a request that is not open.");
    if (output.first_index() != open->second) finding("An output with a gap before it.");
    open->second += static_cast<uint32_t>(output.token_ids_size());
    for (const uint32_t id : output.token_ids())
      if (id >= kFakeVocabSize) finding("A token beyond the vocabulary.");
    if (output.finish_reason() != wire::FINISH_REASON_UNSPECIFIED) next_index_.erase(open);
  }

  std::map<uint32_t, uint32_t> next_index_;  // by open request
  std::optional<wire::RequestError> last_error_;
};

class FuzzedRunner {
 public:
  void run(std::span<const std::byte> bytes) {
    // The size of the pieces comes from the input, so that the same input is always cut in the same way.
    const size_t piece = bytes.empty() ? 1 : 1 + std::to_integer<size_t>(bytes.back()) * 16;
    while (!bytes.empty()) {
      std::span<const std::byte> part = bytes.first(std::min(piece, bytes.size()));
      bytes = bytes.subspan(part.size());
      if (!take(part)) return;
    }
    (void)decoder_.finish();
    session_.end_commands();
    settle();
    for (int i = 0; i < kMaxLastSteps && session_.has_work(); ++i) step();
    for (const uint32_t request_id : listener_.open_requests()) must(session_.obey(cancel(request_id)));
    if (!session_.is_done()) finding("Every request has ended, and the runner is not done.");
    if (engine_.num_free_blocks() != kScheduler.num_blocks) finding("Blocks were not given back.");
  }

 private:
  // Returns false if the stream broke the protocol, so that the runner would exit.
  bool take(std::span<const std::byte> part) {
    while (!part.empty()) {
      Result<std::optional<wire::ToRunner>> command = decoder_.next(part);
      if (!command.ok()) return refused(command.error());
      if (!*command) return true;
      const wire::Generate& generate = (*command)->generate();
      const bool is_new = (*command)->has_generate() && !listener_.is_open(generate.request_id());
      if (is_new) listener_.accepted(generate.request_id(), generate.num_emitted());
      const wire::Embed& embed = (*command)->embed();
      if ((*command)->has_embed() && !listener_.is_open(embed.request_id()))
        listener_.accepted(embed.request_id(), kOfVector);
      if (const auto obeyed = session_.obey(**command); !obeyed.ok()) return refused(obeyed.error());
      tell_outcome(listener_.take_error());
      // Waits for only half of the grammars, so that commands also come to requests that still wait for
      // theirs.
      if (num_commands_++ % 2 == 0) settle();
      if (session_.has_work()) step();
    }
    return true;
  }

  static bool refused(const Error& error) {
    if (error.exit_code != ExitCode::kProtocol) finding(error.message);
    tell_outcome(error.message);
    return false;
  }
  void step() { must(session_.step()); }
  void settle() {
    while (session_.has_waiting()) {
      session_.wait_for_grammars();
      must(session_.settle_grammars([](const wire::GrammarSettled&) {}));
    }
  }
  static void must(const Result<void>& result) {
    if (!result.ok()) finding(result.error().message);
  }

  FakeModel model_{kScheduler.block_size, kScheduler.num_blocks, kScheduler.max_num_batched_tokens};
  Engine engine_{model_, {.max_model_len = kContext, .scheduler = kScheduler}};
  Vitals vitals_;
  Listener listener_;
  Session session_{engine_, vitals_, [this](const wire::FromRunner& event) {
                     listener_.hear(event);
                     return Result<void>();
                   }};
  CommandDecoder decoder_{FrameForm::kBinary};
  uint32_t num_commands_ = 0;
};

}  // namespace

std::vector<std::string> seed_corpus() {
  std::vector<std::string> corpus;
  for (const std::vector<wire::ToRunner>& stream : command_streams()) {
    std::string bytes;
    for (const wire::ToRunner& command : stream) append_frame(command.SerializeAsString(), bytes);
    corpus.push_back(bytes);
  }
  return corpus;
}

std::string_view unit_name() {
  return "frames towards the runner";
}

}  // namespace runnel::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  runnel::fuzz::FuzzedRunner().run(std::as_bytes(std::span(data, size)));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  runnel::fuzz::Random random(seed);
  std::string bytes(reinterpret_cast<const char*>(data), size);
  runnel::fuzz::mutate_frames(bytes, random);
  bytes.resize(std::min(bytes.size(), max_size));
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
