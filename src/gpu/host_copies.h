// Copies between the host and a GPU that nothing else on the GPU can hold up.
//
// The driver's plain copies wait for the default stream, and with it for every stream that waits
// for that one: where such a stream is stuck in a wait, they would be stuck behind it, and so would
// whoever has to end the wait. These have a stream of their own, so they are ordered with nothing:
// what is to be read must be done. And they may come while any stream is captured.
#pragma once

#include <cstddef>
#include <memory>

#include "gpu/driver_api.h"

namespace stretto::cuda {

class Stream;

// On the current GPU; the bytes have arrived on return.
void copy_to_gpu(DevicePtr to, const void* from, size_t num_bytes);
void copy_from_gpu(void* to, DevicePtr from, size_t num_bytes);

// The stream of these copies in a context, which must be current; who keeps it spares each copy the
// making of one. All owners share it, and must free it while the context lives.
std::shared_ptr<const Stream> copy_stream_of(ContextHandle context);

}  // namespace stretto::cuda
