// Work that a stream under capture forbids, such as memory that is allocated, in a call that may be
// part of the capture or come beside one.
#pragma once

#include "gpu/driver_api.h"

namespace stretto::cuda {

// While it lives, the thread may do what captures of its own and of other threads forbid.
class BesideCaptures {
 public:
  BesideCaptures() { check(driver().capture_mode(&mode_), "work beside a capture"); }
  ~BesideCaptures() { driver().capture_mode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  int mode_ = kCaptureRelaxed;
};

}  // namespace stretto::cuda
