// doctest, with its own CHECK, which reports and goes on, in place of the program's, which aborts.
#pragma once

#include "runner/check.h"

#undef CHECK
#include <doctest/doctest.h>
