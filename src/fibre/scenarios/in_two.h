// Calls of a collective in two kernels: one that sends this rank's rows, and one that only receives
// and may start early (device/lang/kernels/call.h).
#pragma once

#include "stretto/device/lang/kernels/send_rows.h"
#include "stretto/fibre/world.h"

namespace stretto::fibre {

template <class Args>
using CallKernel = void (*)(Block&, const Args&);

// How a scenario makes its calls.
template <class Args>
struct InTwo {
  CallKernel<Args> receives = nullptr;  // null: one kernel does all
  bool in_turns = false;                // some ranks in some calls only

  bool is_for(int rank, size_t call) const {
    return receives != nullptr && !(in_turns && (call + size_t(rank)) % 3 == 0);
  }
  // A kernel that reads what every call left would keep the next one from starting early.
  bool is_read_behind(size_t call) const { return receives == nullptr || call % 3 == 1; }
};

// Queues a call on all ranks. args_of(rank) are of the kernel, sent_of(rank) what a sender sends.
template <class Format, class Args, class ArgsOf, class SentOf>
void launch_call(World& world, size_t call, CallKernel<Args> kernel, const InTwo<Args>& in_two,
                 ArgsOf args_of, SentOf sent_of) {
  if (in_two.receives == nullptr) {
    world.launch([=](Block& block) { kernel(block, args_of(block.rank())); });
    return;
  }
  world.launch_early([=](Block& block) {
    if (in_two.is_for(block.rank(), call)) {
      device::send_rows<Format>(block, sent_of(block.rank()));
    } else {
      block.wait_for_kernel_before();
    }
  });
  world.launch_early([=](Block& block) {
    Args args = args_of(block.rank());
    if (in_two.is_for(block.rank(), call)) {
      args.input = nullptr;
      in_two.receives(block, args);
    } else {  // as every kernel begins on a GPU
      block.wait_for_kernel_before();
      block.let_next_start();
      kernel(block, args);
    }
  });
}

}  // namespace stretto::fibre
