// Inputs and expected outputs, kept for executions that work on the same data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "stretto/emulate.h"
#include "stretto/reference.h"

namespace stretto {

class SharedReference {
 public:
  // Beyond max_bytes nothing more is kept; everything can still be asked for.
  explicit SharedReference(int64_t max_bytes) : max_bytes_(max_bytes) {}

  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  // The part of an input that a rank holds, row-major, in the operator's type.
  Bytes input(const Operator& op, const InputData& data, int tensor, int rank);
  // Of every output, in their order.
  using Expected = std::shared_ptr<const std::vector<ExpectedRows>>;
  Expected expected(const Operator& op, const InputData& data, const Roundings& roundings,
                    int64_t row0, int64_t row1);

 private:
  void forget_other(const Operator& op);

  int64_t max_bytes_, num_bytes_ = 0;
  Operator op_;  // whose data are kept
  using DataKey = std::tuple<uint64_t, Fill, RoutingKind, const RoutingTable*>;
  static DataKey key_of(const InputData& data) {
    return {data.seed, data.fill, data.routing.kind, data.routing.table.get()};
  }
  std::map<std::tuple<DataKey, int, int>, Bytes> inputs_;
  std::map<std::tuple<DataKey, DType, int, DType, int64_t, int64_t>, Expected> expected_;
};

}  // namespace stretto
