// One lane of a warp that acts for all (sm_90).
#pragma once

#include "stretto/device/types.h"

namespace stretto::device {

// By a whole warp, whose lanes come together: true for one of them, the same each time. PTX does
// not say for which.
//
// Who copies by TMA should be chosen so. An instruction of TMA takes its operands from registers
// that a warp shares. Of a lane that is elected the compiler sees that it is alone; of one that is
// chosen by its number it does not, and emits a loop over lanes that takes some 100 to 200 cycles.
STRETTO_DEVICE bool is_elected() {
  uint32 elected;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "elect.sync _|p, 0xffffffff;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}"
      : "=r"(elected));
  return elected != 0;
}

}  // namespace stretto::device
