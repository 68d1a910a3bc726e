#include "runner/bench/samples.h"

#include "test/unit_test.h"

namespace runnel {

TEST_CASE("samples: say how they lie, whatever order they came in") {
  Samples samples;
  for (const double value : {40.0, 10.0, 50.0, 20.0, 30.0}) samples.add(value);
  CHECK(samples.min() == 10.0);
  CHECK(samples.median() == 30.0);
  CHECK(samples.max() == 50.0);
  CHECK(samples.percentile(20) == 10.0);
  CHECK(samples.percentile(21) == 20.0);
  CHECK(samples.percentile(99) == 50.0);
  CHECK(samples.percentile(100) == 50.0);
}

}  // namespace runnel
