#include "cuda-runner/kernels/feed.h"

#include <vector>

#include "cuda-runner/kernels/draw.h"
#include "test/cuda-runner/on_device.h"
#include "test/unit_test.h"

namespace runnel {
namespace {

using namespace test;

TEST_CASE("feed: each row gets the id of its draw, and 0 where the draw found none") {
  const TestStream stream;
  // More rows than a block has threads.
  constexpr uint32_t kRows = 300;
  std::vector<uint32_t> drawn;
  std::vector<uint32_t> token_ids;
  std::vector<uint32_t> wanted;
  for (uint32_t row = 0; row < kRows; ++row) {
    drawn.push_back(row == 7 ? kNotFinite : 1000 + row);
    token_ids.push_back(kRows - 1 - row);
  }
  for (const uint32_t draw : token_ids) wanted.push_back(draw == 7 ? 0 : drawn[draw]);
  wanted.push_back(5);  // is left alone
  token_ids.push_back(5);
  const DeviceArray<uint32_t> from(stream, drawn);
  const DeviceArray<uint32_t> to(stream, token_ids);
  require_success(load_feed());
  require_success(feed(from.read_view(), to.view(), kRows, stream));
  CHECK(to.values() == wanted);
}

}  // namespace
}  // namespace runnel
