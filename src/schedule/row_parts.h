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
  RowShards owners;                 // of all rows; one owner where no rank owns rows
  std::vector<bool> has_rows = {};  // by tensor: whether it has a row for each of the operator's
  std::vector<RowPart> parts = {};
};

// Cut at whole waves of tiles where that wastes less of the SMs than equal parts do. The split must
// be possible: there is nothing that why_no_split() says.
RowParts row_parts(const Operator& op, const OperatorSchedule& schedule, const Machine& machine);

// The operator of the largest of so many equal parts: what presets choose their numbers for.
Operator equal_part(const Operator& op, int split);

// What is wrong with so many parts, and what would be right; empty where nothing is.
std::string why_no_split(const Operator& op, int split);

}  // namespace stretto
