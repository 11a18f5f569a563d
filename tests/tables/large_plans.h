// Plans with buffers of more than 2^31 elements, and little to multiply.
#pragma once

#include <ostream>

namespace stretto::cuda {

struct LargePlan {
  const char* name;
  const char *op, *schedule;
  const char* large;  // the buffer, on every rank
};

// Two instances of what is sent, so that the second begins beyond 4 GB.
inline constexpr LargePlan kLargePlans[] = {
    {"RowsThatAreGathered", "ag-gemm m=131072 n=256 k=16400 ranks=2 dtype=bf16",
     "tiles,tile=128x128,comm-sms=8", "ag"},
    {"OutputOfAGather", "ag-gemm m=131072 n=32784 k=128 ranks=2 dtype=bf16",
     "tiles,tile=128x256,mover=copy-engine", "out"},
    {"ScatteredOutput", "gemm-rs m=131072 n=32784 k=128 ranks=2 dtype=bf16",
     "tiles,tile=128x256,comm-sms=8", "out"},
    {"ReducedOutput", "gemm-ar m=65536 n=32784 k=128 ranks=2 dtype=bf16",
     "tiles,tile=128x256,comm-sms=8", "out"},
};

inline void PrintTo(const LargePlan& plan, std::ostream* out) { *out << plan.op; }

}  // namespace stretto::cuda
