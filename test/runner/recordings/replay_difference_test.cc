// Which differences between a recording and its replay are reported, and which are not.
#include <bit>
#include <functional>

#include "test/fixtures/replayed_session.h"

namespace runnel {

using namespace replayed;

TEST_CASE("replay: times are not compared, what was found in the cache is") {
  const RecordingPath file;
  FakeEngine fake;
  run_session(fake, file.path);
  std::vector<wire::RecordEntry> all = entries_of(file.path);
  uint32_t num_changed = 0;
  for (wire::RecordEntry& entry : all) {
    if (entry.event().step().first_outputs_size() == 0) continue;
    wire::FirstOutput& first = *entry.mutable_event()->mutable_step()->mutable_first_outputs(0);
    first.set_queued_us(first.queued_us() + 1000);
    first.set_prefill_us(first.prefill_us() + 1);
    ++num_changed;
  }
  wire::FromRunner stats;
  stats.mutable_stats()->set_num_waiting(9);
  wire::RecordEntry stats_entry;
  *stats_entry.mutable_event() = stats;
  all.push_back(stats_entry);
  CHECK(num_changed == 3);
  write_entries(file.path, all);
  CHECK(replay_it(file.path).end.ok());
  for (wire::RecordEntry& entry : all)
    if (entry.event().step().first_outputs_size() > 0)
      entry.mutable_event()->mutable_step()->mutable_first_outputs(0)->set_num_cached_tokens(8);
  write_entries(file.path, all);
  CHECK(replay_it(file.path).end.error().exit_code == ExitCode::kDifferent);
}

TEST_CASE("replay: the smallest difference is found and named with both frames") {
  const RecordingPath file;
  FakeEngine fake;
  run_session(fake, file.path);
  const std::vector<wire::RecordEntry> all = entries_of(file.path);
  const auto difference_after = [&](const std::function<void(std::vector<wire::RecordEntry>&)>& change) {
    std::vector<wire::RecordEntry> changed = all;
    change(changed);
    write_entries(file.path, changed);
    const Replayed replayed = replay_it(file.path);
    if (replayed.end.ok()) return std::string();
    CHECK(replayed.end.error().exit_code == ExitCode::kDifferent);
    return replayed.end.error().message;
  };
  const auto last_step = [](std::vector<wire::RecordEntry>& changed) {
    return std::find_if(changed.rbegin(), changed.rend(),
                        [](const auto& entry) { return entry.event().step().outputs_size() > 0; });
  };
  CHECK(difference_after([](auto&) {}) == "");
  CHECK(difference_after([&](auto& changed) {
          wire::TokenLogprobs& logprobs =
              *last_step(changed)->mutable_event()->mutable_step()->mutable_outputs(0)->mutable_logprobs(0);
          logprobs.set_logprob(std::bit_cast<float>(std::bit_cast<uint32_t>(logprobs.logprob()) ^ 1));
        }).find("differs.\n  recorded: {\"step\":") != std::string::npos);
  CHECK(difference_after([&](auto& changed) {
          last_step(changed)->mutable_event()->mutable_step()->mutable_outputs(0)->set_token_ids(0, 5);
        }).find("Step " + std::to_string(fake.model.num_forwards)) == 0);
  CHECK(difference_after([&](auto& changed) {
          for (wire::RecordEntry& entry : changed)
            if (entry.event().has_prompt_logprobs())
              entry.mutable_event()->mutable_prompt_logprobs()->mutable_logprobs(0)->set_logprob(0.5f);
        }).find("differs.\n  recorded: {\"prompt_logprobs\":") != std::string::npos);
  CHECK(difference_after([&](auto& changed) { changed.erase(last_step(changed).base() - 1); }) == "");
  CHECK(difference_after([&](auto& changed) {
          for (wire::RecordEntry& entry : changed)
            if (entry.command().generate().request_id() == 2)
              entry.mutable_command()->mutable_generate()->mutable_sampling()->set_seed(77);
        }) != "");
  CHECK(difference_after([&](auto& changed) {
          std::erase_if(changed, [](const auto& entry) { return entry.command().has_pause(); });
        }) != "");
  CHECK(difference_after([&](auto& changed) {
          std::erase_if(changed, [](const auto& entry) {
            return entry.event().request_error().code() == wire::ERROR_CODE_CANCELLED;
          });
        }).find("recorded: nothing\n  computed: {\"request_error\"") != std::string::npos);
}

TEST_CASE("replay: another model or other arithmetic is refused") {
  const RecordingPath file;
  FakeEngine fake;
  run_session(fake, file.path);
  const Replayed other_model =
      replay_it(file.path, kAll, {.numerics_id = "fake-1", .model_identity = "other"});
  REQUIRE_FALSE(other_model.end.ok());
  CHECK(other_model.end.error().exit_code == ExitCode::kUsage);
  CHECK(other_model.end.error().message.find("model identity is fake model, this one's is other") !=
        std::string::npos);
  const Replayed other_numerics =
      replay_it(file.path, kAll, {.numerics_id = "fake-2", .model_identity = "fake model"});
  REQUIRE_FALSE(other_numerics.end.ok());
  CHECK(other_numerics.end.error().message.find("numerics id is fake-1") != std::string::npos);
  ReplaySubject other_context = kSubject;
  other_context.model_numerics_id = "fake-1-short";
  const Replayed by_other_rope = replay_it(file.path, kAll, other_context);
  REQUIRE_FALSE(by_other_rope.end.ok());
  CHECK(by_other_rope.end.error().message.find("numerics id is fake-1-long, this one's is fake-1-short") !=
        std::string::npos);
}

TEST_CASE("replay: vectors are compared as tokens are, and differences are reported") {
  const RecordingPath file;
  {
    FakeEngine fake;
    wire::RecordingStart start;
    start.set_version(kRecordingVersion);
    const auto recorder = Recorder::open(file.path, kDefaultRecordMaxBytes, start).value();
    RecordedSession session(fake, *recorder);
    session.obey(generate_of(kFirst));
    session.step(2);
    wire::ToRunner command;
    wire::Embed& embed = *command.mutable_embed();
    embed.set_request_id(9);
    embed.mutable_token_ids()->Assign(kThird.token_ids.begin(), kThird.token_ids.end());
    embed.set_pooling(wire::POOLING_MEAN);
    session.obey(command);
    session.end_commands();
    session.step(1000);
  }
  const Replayed replayed = replay_it(file.path);
  CAPTURE(replayed.said);
  CHECK(replayed.end.ok());

  std::vector<wire::RecordEntry> entries = entries_of(file.path);
  uint32_t num_vectors = 0;
  for (wire::RecordEntry& entry : entries) {
    if (!entry.event().has_embedding()) continue;
    ++num_vectors;
    wire::Embedding& embedding = *entry.mutable_event()->mutable_embedding();
    embedding.set_values(0, embedding.values(0) + 1.0f);
  }
  CHECK(num_vectors == 1);
  write_entries(file.path, entries);
  CHECK_FALSE(replay_it(file.path).end.ok());
}

}  // namespace runnel
