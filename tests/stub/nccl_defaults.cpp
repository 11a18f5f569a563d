// Every function of NCCL that Stretto looks for. Weak: nccl.cpp has better answers of some.
#include "fabric/nccl_api.h"

namespace stretto::fabric {

#define STRETTO_STUB(member, symbol, parameters) \
  extern "C" __attribute__((weak)) int symbol parameters { return 0; }
STRETTO_NCCL_FUNCTIONS(STRETTO_STUB)
STRETTO_NCCL_WINDOW_FUNCTIONS(STRETTO_STUB)
#undef STRETTO_STUB

}  // namespace stretto::fabric
