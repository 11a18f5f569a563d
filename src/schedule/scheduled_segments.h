// The segments of an operator that its schedules name.
#pragma once

#include <string_view>
#include <vector>

#include "stretto/operator.h"

namespace stretto {

// Each has a schedule of its own.
std::vector<const OperatorSegment*> scheduled_products(const Operator& op);

// Each has a mover at most: edges at no product, and stages over rows. Of a name the product has
// it, then the edge.
std::vector<const OperatorSegment*> scheduled_edges(const Operator& op);
std::vector<std::string_view> names_of_scheduled_edges(const Operator& op);

// Of a routed product: X has a row for each choice, not for each token. Where each token has one
// choice both are as many, and who holds them says which they are: a rank has rows by choice only
// where it has their expert.
bool takes_choices(const Operator& op, const OperatorSegment& one);

}  // namespace stretto
