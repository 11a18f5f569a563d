// The result of an operator in fp32, made on one GPU from whole tensors, stage by stage: what plans
// are judged by where the CPU's reference would take too long.
#pragma once

#include <vector>

#include "gpu/cublas.h"
#include "gpu/test_data.h"
#include "stretto/operator.h"
#include "stretto/reference.h"

namespace stretto::runtime {

// What a rank's part of an input holds: standard normal values, those of weights of operators of
// several stages scaled so that products are no larger than what they multiply.
void fill_input_slice(const Operator& op, int tensor, int rank, const cuda::TestData& data,
                      const cuda::Stream& stream, cuda::DevicePtr to);

// Of every output, in fp32, what `rank` gets, its rows close together. Work is done on the stream,
// and when this returns. cuBLAS uses the stream too.
std::vector<cuda::DeviceMemory> reference_outputs(const Operator& op, int rank,
                                                  const cuda::TestData& data,
                                                  const cuda::Cublas& cublas,
                                                  const cuda::Stream& stream);

}  // namespace stretto::runtime
