// doctest with its own CHECK, which reports and goes on, in place of the program's, which aborts. Include it
// last: the headers of the program must have expanded theirs by then, and the compiler complains if they have
// not.
#pragma once

#include "runner/check.h"

#undef CHECK
#include <doctest/doctest.h>
