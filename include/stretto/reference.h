// Reference: what an operator must produce, from inputs that are pure functions of a seed.
//
// Segments compute out = A * B^T with A [M, K] and B [N, K]; they differ in who holds what. So
// inputs and outputs have global coordinates here, and Slice says which part of them a rank holds.
// Nothing here shares code with the emulator or with kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "stretto/dtype.h"
#include "stretto/operator.h"

namespace stretto {

// X(enumerator, text, meaning)
#define STRETTO_FILLS(X)                                                                         \
  X(integers, "integers", "small integers: every sum is exact, results must be equal")           \
  X(random, "random", "normal values: results must lie within an elementwise bound")             \
  X(specials, "specials", "integers with infinities and NaNs among them: results must be equal") \
  X(subnormals, "subnormals", "A of subnormal numbers: as random, results are about subnormal")

enum class Fill : uint8_t {
#define STRETTO_ENUM(name, text, meaning) name,
  STRETTO_FILLS(STRETTO_ENUM)
#undef STRETTO_ENUM
};
std::string_view to_string(Fill fill);

enum class Input : uint8_t { a, b };  // A [M, K], B [N, K]

// Which experts rows choose, where nobody says.
#define STRETTO_ROUTINGS(X)                                                                  \
  X(uniform, "uniform", "experts of a row are different, and all are as likely")             \
  X(zipf, "zipf", "the same, but expert i is as likely as 1 / (i + 1) of the first")         \
  X(one_hot, "one-hot", "every row chooses one expert first; its others are different ones") \
  X(adversarial, "adversarial",                                                              \
    "rows that choose nothing, an expert several times, only the last one or none that is")

enum class RoutingKind : uint8_t {
#define STRETTO_ENUM(name, text, meaning) name,
  STRETTO_ROUTINGS(STRETTO_ENUM)
#undef STRETTO_ENUM
};
std::string_view to_string(RoutingKind kind);

// What rows choose: ids, and the weights of the experts' results.
struct RoutingTable {
  std::vector<int32_t> ids;    // [rows, top_k]
  std::vector<float> weights;  // the same; empty: as without a table
  int64_t top_k = 1;
};
struct Routing {
  RoutingKind kind = RoutingKind::uniform;
  std::shared_ptr<const RoutingTable> table = {};  // null: what `kind` says
  bool operator==(const Routing&) const = default;
};
// A line for each row: its experts, then, after a '|', their weights. Throws UsageError with the
// line that is wrong.
std::shared_ptr<const RoutingTable> parse_routing(std::string_view text,
                                                  std::string_view file_name);
// Why it is none of the operator's; empty: it is.
std::string why_not_routing_of(const RoutingTable& table, const Operator& op);

// The part of a global matrix that one rank holds; its local row 0 is global row `row0`.
struct Slice {
  int64_t row0 = 0, row1 = 0, col0 = 0, col1 = 0;
  int64_t rows() const { return row1 - row0; }
  int64_t cols() const { return col1 - col0; }
  bool operator==(const Slice&) const = default;
};
Slice input_slice(const Segment& op, Input input, int rank);  // of A or B
Slice output_slice(const Segment& op, int rank);              // of out [M, N]

// Integers (exact in bf16, fp16 and fp32 by construction, for every K):
//   A has at most 32 nonzeros a row, spread evenly over K, of magnitude 1 or 2; |B| <= 4. So any
//   sum of any subset of an output element's terms is an integer of magnitude <= 256, and every
//   partial sum, in every order and grouping, is representable in every element type. Positions
//   and values hang on row, column and seed: exchanged rows, columns, tiles or ranks are noticed.
// Random: nearly normal, mean 0, variance 1, |x| < 3.5, rounded to the operator's type.
// Specials: integers, but half of A's rows have an infinity or NaN or two, and one of B's rows in
//   16 has one. Whether an element of the output is a NaN, an infinity of either sign or an integer
//   hangs on its terms and not on their order.
// Subnormals: B is random; A is random, scaled so that every value is subnormal in its type.
struct InputData {
  Fill fill = Fill::random;
  uint64_t seed = 1;
  Routing routing = {};
};
float input_value(const Segment& op, const InputData& data, Input input, int64_t row, int64_t col);
// values[i] = input_value(row, col0 + i); much faster than one by one.
void fill_input(const Segment& op, const InputData& data, Input input, int64_t row, int64_t col0,
                std::span<float> values);

// How often and how coarsely an implementation rounds between the products and the output.
struct Roundings {
  DType partials = DType::fp32;  // the type in which a rank's partial sum is stored or travels
  // Roundings to `partials` on an element's way from fp32 sum to the final rounding: 0 none,
  // 1 each rank's partial sum once (slots), 1 + hops when a collective also rounds at each hop.
  int roundings = 0;
  // The type in which what follows a product takes it.
  DType kept = DType::fp32;
};

// Rows [row0, row1) of out [M, N], all columns.
struct ExpectedRows {
  int64_t row0 = 0, row1 = 0, cols = 0;
  std::vector<double> values;  // exact up to fp64 roundings; not rounded to the output's type
  // Largest |got - value| of a right implementation whose output is rounded to the operator's
  // type; 0 for integers, while they are exact, and specials. docs/verification.md derives it.
  // Values that are not finite must be met as they are.
  std::vector<double> bounds;
  // Rows of which nothing can be said: some value may leave its type's range on the way, or errors
  // grow as large as the values.
  int64_t unjudged = 0;
  // Where the output is held routed: by row the rank that has it, -1 where none has; else empty.
  std::vector<int32_t> owners = {};

  bool is_on(int rank, int64_t row) const {
    return owners.empty() || owners[static_cast<size_t>(row - row0)] == rank;
  }
  double value(int64_t row, int64_t col) const { return values[index(row, col)]; }
  double bound(int64_t row, int64_t col) const { return bounds[index(row, col)]; }
  size_t index(int64_t row, int64_t col) const {
    return static_cast<size_t>((row - row0) * cols + col);
  }
};
// About 4e9 multiply-adds a second for random data, far faster for integers. Holds a few row
// blocks only: ask for some hundred rows at a time; several threads may ask at once.
ExpectedRows expected_rows(const Segment& op, const InputData& data, const Roundings& roundings,
                           int64_t row0, int64_t row1);

// For whole operators, tensor by tensor: operands of a product that are its A have values
// as Input::a above, all others as Input::b. Where an operator is more than one product, weights
// have WeightValues instead, so that no tensor grows from stage to stage: random ones are scaled,
// and of integers few in a row are not 0, those 1 and -1, or powers of two where sums are integers
// no more. A of integers is then 1, 2, -1 and -2 everywhere.

// What a rank has of a tensor that is held so.
Slice slice_of(const Operator& op, int tensor, Held held, int rank);
// The tensor's row that is row `row` of a rank's slice. Rows of a stack's matrices lie below one
// another, so those that a rank has of each are not one block of the tensor's.
int64_t row_of_slice(const Operator& op, int tensor, Held held, const Slice& slice, int64_t row);
// Rows of the tensor for each row of the operator's: as many as a row has choices where each of
// them has one.
int64_t rows_each(const Operator& op, int tensor);
// values[i] = the input's element (row, col0 + i).
void fill_tensor(const Operator& op, const InputData& data, int tensor, int64_t row, int64_t col0,
                 std::span<float> values);
// The rank that a row is on of an input with a row for each choice, whose experts the caller's ids
// say; -1 where its choice is no expert's. Nothing of other tensors, and where scores choose.
std::optional<int> rank_of_choice(const Operator& op, const InputData& data, int tensor,
                                  int64_t row);
// Rows [row0, row1) of every output, in their order, counted as the operator's: of what has a row
// for each choice, those of these rows' choices; of what is counted of all rows, everything with
// row 0. Each tensor that a segment leaves is taken to be rounded to the operator's type.
std::vector<ExpectedRows> expected_outputs(const Operator& op, const InputData& data,
                                           const Roundings& roundings, int64_t row0, int64_t row1);
// So many rows there are to ask for.
int64_t rows_to_expect(const Operator& op);

}  // namespace stretto
