// Work that a stream under capture forbids, such as memory that is allocated, in a call that may be
// part of the capture or come beside one.
#pragma once

#include "gpu/driver_api.h"

namespace stretto::cuda {

// While it lives, the thread may do what captures of its own and of other threads forbid.
// Destructors use it: where the driver refuses, since an earlier kernel failed, so will what comes
// next.
class BesideCaptures {
 public:
  BesideCaptures() : is_changed_(driver().capture_mode(&mode_) == kSuccess) {}
  ~BesideCaptures() {
    if (is_changed_) driver().capture_mode(&mode_);
  }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  int mode_ = kCaptureRelaxed;
  bool is_changed_;
};

// Whether a stream of the current GPU that waits for the default one, as those of
// cudaStreamCreate() do, is being captured. Of streams that do not wait only these themselves know.
inline bool is_legacy_captured() {
  const StreamHandle legacy = reinterpret_cast<StreamHandle>(uintptr_t{1});
  int status = 0;
  uint64_t capture = 0;
  const Result result = driver().capture_info(legacy, &status, &capture, nullptr, nullptr, nullptr);
  return result == kCaptureImplicit || (result == kSuccess && status != 0);
}

}  // namespace stretto::cuda
