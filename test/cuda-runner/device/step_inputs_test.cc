// What a step sends of its sequences' block tables. The device is emulated: it knows which memory was
// written.
#include "cuda-runner/step_inputs.h"

#include <cstdint>
#include <vector>

#include "cuda-runner/emulator/machine.h"
#include "test/cuda-runner/emulator/emulated.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

constexpr uint32_t kMaxRows = 40;
constexpr uint32_t kLongTable = 2048;
constexpr uint32_t kSpareBlock = 7;

// out[i]: entry `entry` of table i.
__global__ void read_tables_kernel(StepRows rows, uint32_t entry, Global<uint32_t> out) {
  out[threadIdx.x] = rows.block_tables[threadIdx.x * rows.table_stride + entry];
}

class SentTables {
 public:
  // A step with a row of each sequence, which has this table.
  SentTables(uint32_t max_table_blocks, const std::vector<std::vector<uint32_t>>& tables)
      : num_tables_(tables.size() + 1) {
    Result<StepInputs> inputs = StepInputs::allocate({kMaxRows, 1, max_table_blocks, {}}, stream_);
    CHECK(inputs.ok());
    inputs_ = *std::move(inputs);
    std::vector<std::vector<std::vector<uint32_t>>> by_group;
    for (const auto& table : tables) by_group.push_back({table});
    Batch batch;
    for (uint32_t row = 0; row < tables.size(); ++row) {
      batch.token_ids.push_back(0);
      batch.positions.push_back(0);
      batch.sequences.push_back({row, 1, 0, by_group[row]});
    }
    const uint64_t before = emulator::machine().num_upload_bytes;
    inputs_.send(batch, batch.num_rows(), kSpareBlock, stream_);
    stream_.synchronize();
    // Besides a token, a position and a sequence for each row.
    table_bytes_ = emulator::machine().num_upload_bytes - before - 3 * tables.size() * sizeof(uint32_t);
  }

  // An entry of the first `count` tables.
  std::vector<uint32_t> read(uint32_t entry, uint32_t count) {
    const Array<uint32_t> out = device_.allocate<uint32_t>(count);
    CHECK(device_.launch(1, count, LAUNCH(read_tables_kernel, inputs_.rows(0), entry, out.view())) ==
          cudaSuccess);
    std::vector<uint32_t> entries = device_.download(out);
    CHECK(device_.synchronize() == cudaSuccess);
    return entries;
  }
  uint64_t table_bytes() const { return table_bytes_; }
  uint32_t num_tables() const { return static_cast<uint32_t>(num_tables_); }

 private:
  Emulated device_;
  Stream stream_;
  StepInputs inputs_;
  size_t num_tables_;
  uint64_t table_bytes_ = 0;
};

std::vector<std::vector<uint32_t>> tables_of(uint32_t count, uint32_t size) {
  std::vector<std::vector<uint32_t>> tables(count, std::vector<uint32_t>(size));
  for (uint32_t i = 0; i < count; ++i)
    for (uint32_t entry = 0; entry < size; ++entry) tables[i][entry] = 1000 * i + entry;
  return tables;
}

TEST_CASE("step inputs: of long block tables the part is sent that the sequences use") {
  for (const uint32_t size : {1u, 3u, kLongTable}) {
    CAPTURE(size);
    const auto tables = tables_of(kMaxRows, size);
    SentTables sent(kLongTable, tables);
    CHECK(sent.table_bytes() == sent.num_tables() * uint64_t{size} * sizeof(uint32_t));
    CHECK(sent.read(0, sent.num_tables()).back() == kSpareBlock);
    const std::vector<uint32_t> last = sent.read(size - 1, kMaxRows);
    for (uint32_t i = 0; i < kMaxRows; ++i) CHECK(last[i] == tables[i].back());
  }
}

TEST_CASE("step inputs: short block tables are sent as one piece, whatever is used of them") {
  auto tables = tables_of(2, 1);
  tables[1].resize(40, 5);
  SentTables sent(64, tables);
  CHECK(sent.table_bytes() == 3 * 64 * sizeof(uint32_t));
  CHECK(sent.read(39, 2).back() == 5);
}

}  // namespace
}  // namespace runnel
