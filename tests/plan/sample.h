// A small plan by hand that has one of everything, and its text.
#pragma once

#include <string>
#include <string_view>

#include "stretto/plan.h"

namespace stretto {

inline constexpr std::string_view kSampleText = R"(stretto-plan 2
operator gemm-rs m=5 n=4 k=6 ranks=2 dtype=bf16
schedule granularity=tile,made=by-hand
sms 132
buffer a bf16 5x3 input
buffer b bf16 4x3 input
buffer slots fp32 6x4 symmetric copies=2
buffer part bf16 5x4 local
buffer out bf16 3x4 output sharded=5
signals slots 4 copies=2
signals ack 1

lane 0 compute 0
  boundary 0
  gemm #5 a[0:2,0:3] a[2:5,0:3] b[0:4,0:3] -> slots[0:3,0:4] slots@1[0:2,0:4]
  notify slots.1@1 += 1

lane 0 comm 3
  wait slots.1 >= 2
  wait ack.0 >= 1 lag 2
  reduce #0 slots[0:3,0:4] slots[3:6,0:4] -> out[0:3,0:4]

lane 0 copy 0
  copy part[0:2,0:4] -> slots[3:5,0:4] slots@1[3:5,0:4]
  copy #7 part[0:2,1:2] -> slots@1[3:4,0:1] slots@1[4:5,0:1]

lane 1 nccl 0
  collective reduce_scatter 3 part[0:3,0:4] part[3:5,0:4] -> out[0:2,0:4]
  collective all_gather 4 part[0:1,0:4] -> part[1:2,0:4] part[0:1,0:4]
  collective all_reduce 5 part[2:2,0:4] -> part[2:2,0:4]
  deliver out[0:1,0:4] out[1:2,0:4]
end
)";

}  // namespace stretto
