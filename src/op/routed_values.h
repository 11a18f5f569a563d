// The reference of stages that route rows: choice by choice, without partitions.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "op/rows.h"
#include "stretto/operator.h"
#include "stretto/reference.h"

namespace stretto {

// How many choices each expert has in all rows of ids that the caller gives.
Rows count_choices(const Operator& op, const InputData& data, const Stage& stage);

class RoutedRows {
 public:
  // Holds the operator's rows [row0, row1).
  RoutedRows(const Operator& op, const InputData& data, const Roundings& roundings, int64_t row0,
             int64_t row1)
      : op_(op), data_(data), roundings_(roundings), row0_(row0), row1_(row1) {}

  // What a stage has chosen, by row and slot.
  void set_ids(int tensor, const Rows& ids);
  // A row for each choice, of x's row of the operator's row or of the choice; zeros for those that
  // are no expert's.
  Rows grouped(const Stage& stage, const Rows& x, int64_t shares) const;
  // X's row of each choice; zeros likewise.
  Rows permuted(const Stage& stage, const Rows& x) const;
  // Products' rows become one again, of those that are an expert's.
  Rows weigh(const Stage& stage, const Rows& products, const Rows& weights) const;
  // Of an output with a row for each choice: those of no expert may be anything.
  void allow_undefined(int tensor, ExpectedRows& rows) const;
  // By row of such an output the rank that has its expert; -1: it is no expert's.
  std::vector<int32_t> owners(int tensor) const;

 private:
  // The expert of each choice of these rows; -1: it is no expert's.
  std::vector<int32_t> experts(int ids, int64_t matrices) const;

  const Operator& op_;
  const InputData& data_;
  const Roundings& roundings_;
  const int64_t row0_, row1_;
  std::map<int, std::vector<int32_t>> made_;  // by tensor that no caller gives
};

}  // namespace stretto
