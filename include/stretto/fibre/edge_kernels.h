// Kernels of a user's own that the emulator can execute in plans, by their names in graphs.
//
//   #include "ring_sum.h"
//   STRETTO_EDGE_KERNEL(ring_sum)
//
// in a program that calls emulate() is all that it takes. The command does the same with the header
// that a graph names.
#pragma once

#include <string>
#include <string_view>

#include "stretto/device/elements.h"
#include "stretto/device/lang/edge_kernel.h"
#include "stretto/dtype.h"
#include "stretto/fibre/block.h"

namespace stretto::fibre {

using EdgeKernelFunction = void (*)(Block& block, const device::EdgeArgs<Block>& args, DType dtype);

// The last one that was registered under the name; null: none.
EdgeKernelFunction find_edge_kernel(std::string_view name);
void register_edge_kernel(const std::string& name, EdgeKernelFunction kernel);

struct EdgeKernelRegistration {
  EdgeKernelRegistration(const char* name, EdgeKernelFunction kernel) {
    register_edge_kernel(name, kernel);
  }
};

}  // namespace stretto::fibre

// `kernel`: the name of the template, at namespace scope. Once in a program.
#define STRETTO_EDGE_KERNEL(kernel)                                                  \
  static const ::stretto::fibre::EdgeKernelRegistration stretto_registered_##kernel( \
      #kernel, [](::stretto::fibre::Block& block,                                    \
                  const ::stretto::device::EdgeArgs<::stretto::fibre::Block>& args,  \
                  ::stretto::DType dtype) {                                          \
        using Block = ::stretto::fibre::Block;                                       \
        if (dtype == ::stretto::DType::bf16)                                         \
          kernel<::stretto::device::Bf16x8, Block>(block, args);                     \
        if (dtype == ::stretto::DType::fp16)                                         \
          kernel<::stretto::device::Fp16x8, Block>(block, args);                     \
        if (dtype == ::stretto::DType::fp32)                                         \
            kernel<::stretto::device::Fp32x4, Block>(block, args);                   \
      });
