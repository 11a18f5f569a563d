// Where a kernel that was launched to overlap with the one before it on its stream waits for that.
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

#ifdef STRETTO_DEVICE

// The stream's work before this grid has ended and is visible. Until then the grid may have been
// started already, which hides the launch, and may read what no kernel writes; from then on so may
// the next. By every thread of every block that does anything else.
STRETTO_DEVICE void wait_for_stream() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif  // STRETTO_DEVICE

}  // namespace stretto::device
