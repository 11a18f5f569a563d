// The host side of the device language's tile layer on GPUs: copy-engine work queued on a stream of
// one rank, in order, beside the rank's kernels. (TileLink: rank_copy_data, rank_notify, rank_wait;
// on the emulator stretto/fibre/stream.h.)
//
// Calls only queue, also into a graph; the rank's GPU is current. Group, stream and memory must
// live until the stream has done it. A wait that has not ended by the group's deadline is given up,
// and LangGroup::check() says who waited for what; what is queued behind it runs all the same, so
// what that gives is then not to be used. A wait keeps one block of one warp on the GPU: a grid
// that fills the GPU and waits for what is queued behind that wait is found at the deadline too.
#pragma once

#include "fabric/lang_group.h"
#include "lang/lang_kernel.h"
#include "stretto/device/lang/kernels/stream_signals.h"

namespace stretto::fabric {

class RankStream {
 public:
  // Of a rank of this process, whose GPU is `device`.
  RankStream(const LangGroup& group, int rank, const cuda::Device& device,
             const cuda::Compiler& compiler, const cuda::Stream& stream);

  // Copies `count` elements to where `dest`, in the own symmetric memory, lies at `peer`. They have
  // arrived before what is queued here afterwards; `source` is not to be written until then.
  // Throws UsageError when `dest` is no symmetric memory.
  template <class T>
  void rank_copy_data(T* dest, const T* source, size_t count, int peer) {
    copy(dest, source, count * sizeof(T), peer);
  }
  // Adds to the signal at `peer` after everything queued here before.
  void rank_notify(device::uint64* signal, device::uint64 amount, int peer);
  // What is queued here afterwards happens once the own signal has come to `bound`. `from`: who
  // raises it, for the report; -1 where any rank does.
  void rank_wait(device::uint64* signal, device::uint64 bound, int from = -1);

 private:
  void copy(void* dest, const void* source, size_t num_bytes, int peer);
  // Where `own`, so many bytes of symmetric memory, lies at `peer`.
  cuda::DevicePtr at_peer(const void* own, size_t num_bytes, int peer) const;

  const device::GpuWorld& world_;
  const cuda::Stream& stream_;
  cuda::LangKernel notify_, wait_;
};

}  // namespace stretto::fabric
