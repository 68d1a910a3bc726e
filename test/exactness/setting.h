// Random settings of a runner, on which no answer may depend.
#pragma once

#include "test/exactness/case.h"
#include "test/exactness/random.h"
#include "test/exactness/subject.h"

namespace runnel::exactness {

Setting random_setting(Random& random, const Subject& subject, const Sizes& sizes, const Case& of_case);

}  // namespace runnel::exactness
