#include "runner/commands/memory_budget.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "runner/check.h"
#include "runner/engine/engine.h"
#include "runner/system/process_memory.h"

namespace runnel {
namespace {

// Computes one sequence's rows in block 0, and the largest number of rows of logits that one call may have.
void compute_a_step(Model& model, uint32_t num_rows) {
  const std::vector<uint32_t> block_table = {0};
  Batch batch;
  batch.token_ids.assign(num_rows, 0);
  batch.positions.resize(num_rows);
  std::iota(batch.positions.begin(), batch.positions.end(), 0u);
  batch.sequences.push_back({0, num_rows, 0, block_table});
  model.forward(batch, [](Batch&) {});
  const std::vector<HeadRow> rows(kMaxHeadRows, HeadRow{.row = 0});
  (void)model.logits(rows);
}

uint64_t reserve_of(uint64_t memory_bytes) {
  return std::max(kMinReserveBytes, memory_bytes / kReserveShare);
}

// The smallest budget that leaves this many bytes beside its reserve.
uint64_t smallest_budget(uint64_t bytes) {
  return bytes + std::max(kMinReserveBytes, bytes / (kReserveShare - 1) + 1);
}

// The smallest share with two decimals that is at least this many bytes.
double share_of(uint64_t bytes, uint64_t total_bytes) {
  return std::ceil(100.0 * static_cast<double>(bytes) / static_cast<double>(total_bytes)) / 100.0;
}

// As short as possible: "0.9".
std::string text_of(double value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  CHECK(error == std::errc());
  return std::string(text.data(), end);
}

}  // namespace

Result<uint64_t> kv_bytes_within(uint64_t memory_bytes, Model& model, Backend& backend, KvShape shape,
                                 uint32_t max_rows) {
  shape.num_blocks = 1;
  const uint64_t block_bytes = backend.kv_block_bytes(shape);
  if (const auto allocated = backend.allocate_kv(shape); !allocated.ok()) return allocated.error();
  const uint32_t num_rows = std::min(shape.block_size, max_rows);
  compute_a_step(model, num_rows);
  const Result<uint64_t> measured_bytes = private_memory_bytes();
  if (!measured_bytes.ok()) return measured_bytes.error();
  // The stored rows do not count, since they belong to the block.
  const uint64_t used_bytes = *measured_bytes - block_bytes / shape.block_size * num_rows;
  const uint64_t least = smallest_budget(used_bytes + block_bytes);
  if (memory_bytes < least) {
    return Error{ExitCode::kUsage,
                 "--memory-bytes is " + std::to_string(memory_bytes) + "; the process with the model takes " +
                     std::to_string(used_bytes) + " and one block of the KV cache " +
                     std::to_string(block_bytes) + ". Start with " + std::to_string(least) + " or more.",
                 MemoryShortage{least, memory_bytes}};
  }
  return memory_bytes - used_bytes - reserve_of(memory_bytes);
}

Result<uint64_t> kv_bytes_of_share(double share, Backend& backend, KvShape shape) {
  shape.num_blocks = 1;
  const uint64_t block_bytes = backend.kv_block_bytes(shape);
  if (const auto allocated = backend.allocate_kv(shape); !allocated.ok()) return allocated.error();
  const uint64_t total_bytes = backend.device().total_memory_bytes();
  const uint64_t used_bytes = total_bytes - backend.device().free_memory_bytes() - block_bytes;
  const auto allowed_bytes = static_cast<uint64_t>(share * static_cast<double>(total_bytes));
  const uint64_t least = used_bytes + block_bytes;
  if (allowed_bytes < least) {
    return Error{ExitCode::kSystem,
                 "--gpu-memory-utilization is " + text_of(share) + ", which is " +
                     std::to_string(allowed_bytes) + " of the device's " + std::to_string(total_bytes) +
                     " bytes; everything on it takes " + std::to_string(used_bytes) +
                     " and one block of the KV cache " + std::to_string(block_bytes) + ". Start with " +
                     text_of(share_of(least, total_bytes)) +
                     " or more, use a smaller model, or end what else uses the GPU.",
                 MemoryShortage{least, allowed_bytes}};
  }
  return allowed_bytes - used_bytes;
}

}  // namespace runnel
