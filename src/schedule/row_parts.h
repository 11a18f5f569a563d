// Parts of an operator's rows (`split`): each is the same operator of fewer rows, so that one part
// can communicate while another computes.
//
// Where ranks own rows, every rank's block is cut in one way, and a part has a stripe of each
// block: that is how the blocks of an operator of fewer rows are dealt, too. Teams' rows are cut so
// as well, and what a team has whole is the stripes of its ranks. Where no rank owns rows, parts
// are blocks of all rows.
#pragma once

#include <string>
#include <vector>

#include "stretto/schedule.h"

namespace stretto {

struct RowPart {
  Operator op;        // of its rows
  int64_t first = 0;  // where its stripe begins in every owner's block
  RowShards stripes;  // of its rows, by owner
};

struct RowParts {
  RowShards owners;  // of all rows; one owner where no rank owns rows
  // By tensor: how many rows it has for each of the operator's, one below the other; 0: it has
  // others. Of what the caller has by choice that is as many as a row chooses.
  std::vector<int32_t> rows_each = {};
  // The caller gets rows by choice, of all parts in one tensor: so all have a place in one
  // partition.
  bool share_partitions = false;
  std::vector<RowPart> parts = {};
};

// Cut at whole waves of tiles where that wastes less of the SMs than equal parts do. The split must
// be possible: there is nothing that why_no_split() says.
RowParts row_parts(const Operator& op, const OperatorSchedule& schedule, const Machine& machine);

// The operator of the largest of so many equal parts: what presets choose their numbers for.
Operator equal_part(const Operator& op, int split);

// What is wrong with so many parts, and what would be right; empty where nothing is.
std::string why_no_split(const Operator& op, int split);

// A tensor of the caller's with rows of all tokens, or of all choices, that products of rows that
// choose their matrices take or leave, while each rank has a block of other rows; null: there is
// none. A part of it is a stripe of each rank's tokens, so there must be a partition for each
// source.
const Tensor* lies_apart_in_parts(const Operator& op);
// Presets have such partitions then.
void part_by_source(const Operator& op, int split, const Segment& product, Schedule& schedule);
// What is wrong with a product's schedule in such parts; empty where nothing is.
std::string why_no_source(const Operator& op, int split, const Segment& product,
                          const Schedule& schedule);

}  // namespace stretto
