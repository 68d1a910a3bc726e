// CHECK is for conditions that only a mistake in this program can make false. It is always on, prints the
// place and the condition, and aborts, so that the supervisor sees SIGABRT and continues the streams
// elsewhere. Bad input (a frame, a model file, a flag) is never CHECKed: it returns an Error, see result.h.
// Headers write RUNNEL_CHECK, because in tests CHECK is that of doctest.
#pragma once

#include <cstdio>
#include <cstdlib>

#define RUNNEL_CHECK(condition)                                                           \
  do {                                                                                    \
    if (!(condition)) [[unlikely]] {                                                      \
      std::fprintf(stderr, "CHECK failed: %s (%s:%d)\n", #condition, __FILE__, __LINE__); \
      std::abort();                                                                       \
    }                                                                                     \
  } while (false)
#define CHECK RUNNEL_CHECK
