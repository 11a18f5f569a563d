// Skips a test and says why, also where only the summary is printed.
#pragma once

#include <gtest/gtest.h>

#include <iostream>

#define STRETTO_SKIP(reason)                    \
  do {                                          \
    std::cout << "[SKIP] " << (reason) << "\n"; \
    GTEST_SKIP() << (reason);                   \
  } while (false)
