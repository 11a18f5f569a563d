// Where a kernel that was launched to overlap with the one before it on its stream waits for that.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// The stream's work before this grid has ended and is visible. Until then the grid may have been
// started already, which hides the launch, and may read what no kernel writes; past L1 also what
// was written ahead of the grid before, if that let this one start behind its own wait, or started
// no sooner than a grid that did so let it.
STRETTO_DEVICE void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// From now on the next grid may be started, and takes what room this one leaves: once all threads
// of every block that does anything have said so.
STRETTO_DEVICE void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Both. By every thread of every block that does anything else.
STRETTO_DEVICE void wait_for_stream() {
  wait_for_kernel_before();
  let_next_start();
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
