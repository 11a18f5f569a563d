#include "serve/operation_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "stretto/error.h"
#include "stretto/reference.h"

namespace stretto::runtime {
namespace {

using SliceOfRank = std::function<Slice(int rank)>;

size_t most_bytes(const Segment& op, const SliceOfRank& slice) {
  int64_t most = 0;
  for (int rank = 0; rank < op.ranks; ++rank) {
    most = std::max(most, slice(rank).rows() * slice(rank).cols());
  }
  return static_cast<size_t>(most * num_bytes(op.dtype));
}

OperationTensor allocate(fabric::Fabric& fabric, const Segment& op, const char* name,
                         const SliceOfRank& slice) {
  OperationTensor tensor;
  tensor.is_own = true;
  tensor.region = fabric.allocate(most_bytes(op, slice), name);
  for (int i = 0; i < fabric.num_local(); ++i) {
    tensor.addresses.push_back(tensor.region.local(fabric.first_rank() + i));
  }
  return tensor;
}

// The caller's, by local rank; none where the operation is to allocate it.
std::vector<GpuAddress> given_addresses(const std::vector<RankTensors>& given,
                                        GpuAddress RankTensors::*field, const char* name) {
  std::vector<GpuAddress> addresses;
  for (const RankTensors& tensors : given) addresses.push_back(tensors.*field);
  for (const GpuAddress address : addresses) {
    if (address % 16 == 0) continue;
    throw UsageError(
        fmt::format("tensor {} at {:#x}: it must begin at a multiple of 16 bytes", name, address));
  }
  const auto absent = static_cast<size_t>(std::count(addresses.begin(), addresses.end(), 0));
  if (absent == addresses.size()) return {};
  if (absent != 0) throw UsageError(fmt::format("tensor {} is given for some ranks only", name));
  return addresses;
}

void take_given(int num_local, const Segment& op, const std::vector<RankTensors>& given,
                OperationTensors& tensors) {
  const auto local = static_cast<size_t>(num_local);
  if (!given.empty() && given.size() != local) {
    throw UsageError(fmt::format("tensors of {} ranks; this process has {}", given.size(), local));
  }
  tensors.a.addresses = given_addresses(given, &RankTensors::a, "a");
  tensors.b.addresses = given_addresses(given, &RankTensors::b, "b");
  tensors.out.addresses = given_addresses(given, &RankTensors::out, "out");
  if (!tensors.out.addresses.empty() && op.kind == kGemmAr && op.ranks > 1) {
    throw UsageError("the result of gemm-ar is the operation's own: other ranks write it");
  }
}

}  // namespace

OperationTensors place_tensors(fabric::Fabric& fabric, const Segment& op,
                               const std::vector<RankTensors>& given) {
  OperationTensors tensors;
  // Other processes may have been given tensors that fit.
  fabric.group().together("taking tensors",
                          [&] { take_given(fabric.num_local(), op, given, tensors); });
  const auto allocate_unless_given = [&](OperationTensor& tensor, const char* name,
                                         const SliceOfRank& slice) {
    if (tensor.addresses.empty()) tensor = allocate(fabric, op, name, slice);
  };
  allocate_unless_given(tensors.a, "a", [&](int rank) { return input_slice(op, Input::a, rank); });
  allocate_unless_given(tensors.b, "b", [&](int rank) { return input_slice(op, Input::b, rank); });
  allocate_unless_given(tensors.out, "out", [&](int rank) { return output_slice(op, rank); });
  return tensors;
}

Bindings OperationTensors::bindings() const {
  Bindings result;
  for (const auto& [name, tensor] :
       {std::pair{"a", &a}, std::pair{"b", &b}, std::pair{"out", &out}}) {
    if (tensor->is_own) {
      result.symmetric[name] = &tensor->region;
    } else {
      result.own[name] = tensor->addresses;
    }
  }
  return result;
}

}  // namespace stretto::runtime
