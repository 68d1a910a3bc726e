// Replays test/golden/nano-vllm-trace.jsonl, a recording of nano-vLLM's scheduler. The rows, block tables,
// preemptions, ends and free blocks of each step must be the same.
//
// The recording does not have the generated ids. They only matter if a block of them is found again by its
// hash. So every case is replayed with ids that occur nowhere else, and an end before max_tokens is taken
// from the recording.
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "runner/engine/scheduler.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using nlohmann::json;

class Replay {
 public:
  explicit Replay(const json& header)
      : sequences_(header["sequences"]),
        scheduler_({.max_num_batched_tokens = header["config"]["max_num_batched_tokens"],
                    .max_num_seqs = header["config"]["max_num_seqs"],
                    .block_size = header["config"]["kvcache_block_size"],
                    .num_blocks = header["config"]["num_kvcache_blocks"],
                    .mixed_batches = false}) {}

  void step(const json& expected) {
    while (added_.size() < expected["added"].get<size_t>()) add(sequences_[added_.size()]);

    const Plan plan = scheduler_.schedule();
    CHECK(plan.is_prefill == expected["prefill"].get<bool>());
    CHECK(ids_of(plan.preempted) == expected["preempted"]);
    REQUIRE(plan.sequences.size() == expected["rows"].size());
    for (size_t i = 0; i < plan.sequences.size(); ++i) check_row(*plan.sequences[i], expected["rows"][i]);

    std::vector<Sequence*> finished;
    for (Sequence* sequence : plan.sequences) {
      scheduler_.advance(*sequence);
      if (sequence->num_cached_tokens < sequence->num_tokens()) continue;
      sequence->token_ids.push_back(next_id_++);
      const bool ends_early = std::ranges::count(expected["finished"], json(sequence->request_id)) > 0;
      if (ends_early || sequence->num_generated() == sequence->max_tokens) {
        scheduler_.finish(*sequence);
        finished.push_back(sequence);
      }
    }
    CHECK(ids_of(finished) == expected["finished"]);
    CHECK(scheduler_.blocks().pool().num_free() == expected["free"].get<uint32_t>());
    scheduler_.check_integrity();
  }

  bool is_done() const { return added_.size() == sequences_.size() && !scheduler_.has_work(); }

 private:
  void add(const json& description) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request_id = description["id"];
    sequence->token_ids = description["prompt"].get<std::vector<uint32_t>>();
    sequence->num_prompt_tokens = sequence->num_tokens();
    sequence->max_tokens = description["max_tokens"];
    scheduler_.add(*sequence);
    added_.push_back({std::move(sequence), {}});
  }

  // row: [id, scheduled tokens, cached tokens, and the block table if it differs from the last one of the
  // sequence]
  void check_row(const Sequence& sequence, const json& row) {
    REQUIRE(sequence.request_id == row[0].get<uint32_t>());
    CHECK(sequence.num_scheduled_tokens == row[1].get<uint32_t>());
    CHECK(sequence.num_cached_tokens == row[2].get<uint32_t>());
    auto& last_table = added_[sequence.request_id].last_table;
    if (row.size() > 3) last_table = row[3].get<std::vector<uint32_t>>();
    CHECK(sequence.block_tables[0] == last_table);
  }

  static json ids_of(const std::vector<Sequence*>& sequences) {
    json ids = json::array();
    for (const Sequence* sequence : sequences) ids.push_back(sequence->request_id);
    return ids;
  }

  struct Added {
    std::unique_ptr<Sequence> sequence;
    std::vector<uint32_t> last_table;
  };

  json sequences_;
  Scheduler scheduler_;
  std::vector<Added> added_;
  uint32_t next_id_ = 1u << 20;  // above every id of the recorded prompts
};

uint32_t replay(const std::string& wanted_case) {
  std::ifstream file(RUNNEL_SOURCE_DIR "/test/golden/nano-vllm-trace.jsonl");
  std::unique_ptr<Replay> replay;
  uint32_t num_steps = 0;
  for (std::string line; std::getline(file, line);) {
    const json entry = json::parse(line);
    if (entry.contains("case")) {
      if (replay) break;
      if (entry["case"] == wanted_case) replay = std::make_unique<Replay>(entry);
    } else if (replay) {
      CAPTURE(entry["step"].get<int>());
      replay->step(entry);
      ++num_steps;
    }
  }
  REQUIRE(replay);
  CHECK(replay->is_done());
  return num_steps;
}

}  // namespace

TEST_CASE("scheduler: replays nano-vLLM, distinct prompts with little memory") {
  CHECK(replay("noshare") == 169);
}
TEST_CASE("scheduler: replays nano-vLLM, plenty of memory") {
  CHECK(replay("plain") == 90);
}
TEST_CASE("scheduler: replays nano-vLLM, shared prompts with little memory") {
  CHECK(replay("preempt") == 246);
}
TEST_CASE("scheduler: replays nano-vLLM, prompts in chunks") {
  CHECK(replay("chunked") == 71);
}
TEST_CASE("scheduler: replays nano-vLLM, ends before max_tokens") {
  CHECK(replay("eos") == 251);
}
TEST_CASE("scheduler: replays nano-vLLM, blocks of 256 tokens") {
  CHECK(replay("block256") == 100);
}

}  // namespace runnel
