#include "cpu-runner/matrix/expert_rows.h"

#include <malloc.h>

#include "test/unit_test.h"

namespace runnel {
namespace {

uint64_t allocated_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_CASE("the rows of experts take the memory that is planned for them, within a twentieth") {
  const DecoderWidths widths{.hidden = 512,
                             .qkv = 0,
                             .attended = 0,
                             .gated = 128,
                             .experts = {.num_experts = 8, .num_used = 3},
                             .has_output_norm = false};
  constexpr uint32_t kMaxRows = 200;
  const auto threads = ThreadPool::create(1);
  const auto planned = static_cast<double>(ExpertRows::bytes(kMaxRows, widths, /*num_nodes=*/1));
  const uint64_t before = allocated_bytes();
  const ExpertRows rows(kMaxRows, widths, widths.hidden, widths.gated, **threads);
  const auto taken = static_cast<double>(allocated_bytes() - before);
  CAPTURE(taken);
  CAPTURE(planned);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(taken < 1.05 * planned);
  CHECK(taken > 0.95 * planned);
#endif
}

}  // namespace
}  // namespace runnel
