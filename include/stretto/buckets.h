// Buckets: the row counts that plans are made for, so that few plans serve all row counts.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/operator.h"
#include "stretto/segment.h"

namespace stretto {

// The smallest bucket of at least `rows` rows. Buckets are multiples of the ranks that own rows
// (serve.h), with 64 rows for each at least, and lie so close that at most an eighth of a bucket's
// rows, or 64 of each owner's, are more than was asked for.
int64_t bucket_of(ProductKind kind, int ranks, int64_t rows);
// In a whole operator ranks own rows where a product has owners, or a tensor is held so.
bool owns_rows(const Operator& op);
int64_t bucket_of(const Operator& op, int64_t rows);

// All buckets of 1 to `rows` rows, ascending.
std::vector<int64_t> buckets_up_to(ProductKind kind, int ranks, int64_t rows);

}  // namespace stretto
