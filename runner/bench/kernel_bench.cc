#include "runner/bench/kernel_bench.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "runner/bench/bench_report.h"
#include "runner/bench/recording_backend.h"
#include "runner/bench/samples.h"
#include "runner/check.h"
#include "runner/models/kv_groups.h"

namespace runnel {
namespace {

using nlohmann::ordered_json;

// The calls of an operation in a step, one for each layer that has the operation.
struct Group {
  std::string name;
  uint64_t bytes = 0;
  uint64_t operations = 0;
  std::vector<const RecordedOperation*> calls;
};

// One sequence for each row, all at the same position, each with blocks of its own.
class DecodeBatch {
 public:
  DecodeBatch(uint32_t num_rows, uint32_t num_groups, uint32_t num_blocks_each, uint32_t vocab_size)
      : tables_(num_rows) {
    for (uint32_t row = 0; row < num_rows; ++row) {
      tables_[row] = consecutive_tables(num_groups, row * num_groups * num_blocks_each, num_blocks_each);
      batch_.token_ids.push_back(row % vocab_size);
      batch_.positions.push_back(0);
      batch_.sequences.push_back({row, 1, 0, tables_[row]});
    }
  }

  DecodeBatch(const DecodeBatch&) = delete;
  DecodeBatch& operator=(const DecodeBatch&) = delete;

  Batch& at(uint32_t position) {
    std::ranges::fill(batch_.positions, position);
    for (BatchSequence& sequence : batch_.sequences) sequence.first_position = position;
    return batch_;
  }

 private:
  std::vector<std::vector<std::vector<uint32_t>>> tables_;  // by row
  Batch batch_;
};

double median_of(const std::vector<double>& seconds) {
  Samples samples;
  for (const double each : seconds) samples.add(each);
  return samples.median();
}

ordered_json figures(double seconds, uint64_t bytes) {
  return {{"microseconds", seconds * 1e6},
          {"bytes", bytes},
          {"gb_s", static_cast<double>(bytes) / seconds / 1e9}};
}

double tera(uint64_t operations, double seconds) {
  return static_cast<double>(operations) / seconds / 1e12;
}

class KernelBench {
 public:
  KernelBench(RecordingBackend& recorder, Backend& backend, const KernelBenchFlags& flags)
      : operations_(recorder.operations()), backend_(backend), flags_(flags) {}

  ordered_json measure(uint32_t num_rows, DecodeBatch& rows, double copy_gb_s) {
    fill_cache(rows);
    const Batch& batch = rows.at(flags_.num_positions - 1);
    ordered_json entries = ordered_json::array();
    double step_seconds = 0;
    uint64_t step_bytes = 0;
    uint64_t step_operations = 0;
    const auto add = [&](const std::string& name, size_t num_calls, double seconds, uint64_t bytes,
                         uint64_t operations) {
      ordered_json entry = {{"operation", name}, {"calls", num_calls}};
      entry.update(figures(seconds, bytes));
      entry["of_copy"] = entry["gb_s"].get<double>() / copy_gb_s;
      entry["operations"] = operations;
      entry["tops"] = tera(operations, seconds);
      entries.push_back(std::move(entry));
    };
    backend_.begin_forward(batch);
    for (const Group& group : groups(num_rows)) {
      const auto run_all = [&] {
        for (const RecordedOperation* call : group.calls) call->run(batch);
      };
      const double seconds = median_of(backend_.device().seconds_of(run_all, flags_.num_repeats));
      const auto num_calls = group.calls.size();
      add(group.name, num_calls, seconds / static_cast<double>(num_calls), group.bytes / num_calls,
          group.operations / num_calls);
      step_seconds += seconds;
      step_bytes += group.bytes;
      step_operations += group.operations;
    }
    backend_.end_forward();
    add("all of a step", 1, step_seconds, step_bytes, step_operations);
    return entries;
  }

 private:
  // A whole step at the first position sets every activation. The values stored for the other positions do
  // not matter, but their memory must have been written.
  void fill_cache(DecodeBatch& rows) {
    for (uint32_t position = 0; position < flags_.num_positions; ++position) {
      const Batch& batch = rows.at(position);
      backend_.begin_forward(batch);
      for (const RecordedOperation& operation : operations_)
        if (position == 0 || operation.stores_kv) operation.run(batch);
      backend_.end_forward();
    }
  }

  std::vector<Group> groups(uint32_t num_rows) const {
    std::vector<Group> groups;
    for (const RecordedOperation& operation : operations_) {
      auto group = std::ranges::find(groups, operation.name, &Group::name);
      if (group == groups.end()) group = groups.insert(groups.end(), {.name = operation.name, .calls = {}});
      group->calls.push_back(&operation);
      group->bytes += operation.bytes(num_rows, flags_.num_positions);
      group->operations += operation.operations(num_rows, flags_.num_positions);
    }
    return groups;
  }

  const std::vector<RecordedOperation>& operations_;
  Backend& backend_;
  const KernelBenchFlags& flags_;
};

void print_row(const ordered_json& entry, std::ostream& out) {
  out << std::left << std::setw(36) << entry["operation"].get<std::string>() << std::right << std::setw(6)
      << entry["calls"].get<uint64_t>() << std::setw(13) << entry["bytes"].get<uint64_t>() << std::setw(12)
      << entry["microseconds"].get<double>() << std::setw(10) << entry["gb_s"].get<double>() << std::setw(9)
      << 100 * entry["of_copy"].get<double>() << "%" << std::setw(9) << entry["tops"].get<double>() << "\n";
}

void print_table(const ordered_json& json, std::ostream& out) {
  const ordered_json& copy = json["copy"];
  out << "device: " << json["device"].get<std::string>() << "\nmodel: " << json["model"].get<std::string>()
      << "\ncopy of " << copy["bytes"].get<uint64_t>() / 2 << " bytes: " << std::fixed << std::setprecision(1)
      << copy["microseconds"].get<double>() << " us, " << copy["gb_s"].get<double>()
      << " GB/s, read and written\n";
  for (const auto& [instruction, peak] : json["peaks"].items())
    out << "peak of " << instruction << ": " << peak["tops"].get<double>() << " TOPS\n";
  for (const auto& [batch, entries] : json["batches"].items()) {
    out << "\nbatch " << batch << ", " << json["positions"] << " positions\n"
        << std::left << std::setw(36) << "operation" << std::right << std::setw(6) << "calls" << std::setw(13)
        << "bytes" << std::setw(12) << "us" << std::setw(10) << "GB/s" << std::setw(10) << "of copy"
        << std::setw(9) << "TOPS"
        << "\n";
    for (const ordered_json& entry : entries) print_row(entry, out);
  }
  out.flush();
}

}  // namespace

Result<void> kernel_bench(const EngineFlags& engine, std::unique_ptr<Backend> backend,
                          const KernelBenchFlags& flags, std::ostream& out) {
  if (const auto checked = check_block_size(engine.block_size); !checked.ok()) return checked;
  const Result<ModelFile> file = read_model_file(engine);
  if (!file.ok()) return file.error();
  CHECK(!flags.batches.empty());
  const uint32_t max_rows = std::ranges::max(flags.batches);
  RecordingBackend recorder(*backend);
  const auto model = load_model(*file, engine.architecture, engine.max_model_len, recorder,
                                {.max_rows = max_rows, .max_head_rows = max_rows}, [](uint64_t, uint64_t) {});
  if (!model.ok()) return model.error();
  const ModelConfig& config = (*model)->config();
  if (flags.num_positions > config.context_length) {
    return Error{ExitCode::kUsage, "--prompt is " + std::to_string(flags.num_positions) + "; the model has " +
                                       std::to_string(config.context_length) + " positions."};
  }
  const uint32_t num_blocks_each = (flags.num_positions + engine.block_size - 1) / engine.block_size;
  const auto num_groups = static_cast<uint32_t>(kv_groups_of(config).windows.size());
  const auto allocated = recorder.allocate_kv(
      kv_shape_of(config, engine.block_size, max_rows * num_groups * num_blocks_each, flags.num_positions));
  if (!allocated.ok()) return allocated;
  DecodeBatch first(1, num_groups, num_blocks_each, config.vocab_size);
  (*model)->forward(first.at(0), [](Batch&) {});
  (*model)->logits(std::vector<HeadRow>{{.row = 0}});

  const auto copy = backend->device().seconds_of_copy(flags.copy_bytes, flags.num_repeats);
  if (!copy.ok()) return copy.error();
  const auto peaks = backend->device().peaks(flags.peak_iterations, flags.num_repeats);
  if (!peaks.ok()) return peaks.error();
  ordered_json json = {{"copy", figures(median_of(*copy), 2 * flags.copy_bytes)},
                       {"peaks", ordered_json::object()},
                       {"batches", ordered_json::object()}};
  for (const ComputeDevice::Peak& peak : *peaks) {
    const double seconds = median_of(peak.seconds);
    json["peaks"][peak.instruction] = {{"operations", peak.operations},
                                       {"microseconds", seconds * 1e6},
                                       {"tops", tera(peak.operations, seconds)}};
  }
  KernelBench bench(recorder, *backend, flags);
  for (const uint32_t num_rows : flags.batches) {
    DecodeBatch rows(num_rows, num_groups, num_blocks_each, config.vocab_size);
    json["batches"][std::to_string(num_rows)] =
        bench.measure(num_rows, rows, json["copy"]["gb_s"].get<double>());
  }
  json["positions"] = flags.num_positions;
  json["repeats"] = flags.num_repeats;
  json["kv_cache_type"] = kv_type_name(engine.kv_cache_type);
  add_subject({.model = engine.model, .device = backend->device().name(), .num_threads = engine.num_threads},
              json);
  flags.json ? print_json(json, out) : print_table(json, out);
  return {};
}

}  // namespace runnel
