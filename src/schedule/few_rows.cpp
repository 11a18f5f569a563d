#include "schedule/few_rows.h"

#include <fmt/format.h>

#include "core/ceil_div.h"
#include "op/few_rows_tiles.h"
#include "schedule/low_latency.h"
#include "stretto/device/few_rows_task.h"

namespace stretto {
namespace {

// Between two ranks links have the same bytes in one hop and in two; what is sent beside a product
// may be more than what a collective alone sends so.
constexpr int64_t kMostOfTwo = 16 << 20;

}  // namespace

std::string why_no_few_rows(const Segment& op) {
  if (!problems(op).empty()) return "";  // said elsewhere
  if (!op.is_dense()) return "rows that choose their matrices: take gemm=tiles or gemm=library";
  if (op.exchanges()) return "what ranks exchange by columns: take gemm=library";
  // Of a whole weight results may be scores, which are stored in fp32.
  if (op.kind.weight == Held::whole) {
    return "a weight that every rank has whole: take gemm=library";
  }
  if (op.dtype == DType::fp32) return "fp32; it multiplies bf16 and fp16: take gemm=library";
  const int64_t most_rows = times_sent(op) > 0 ? device::kMostSentRows : device::kMostFewRows;
  if (op.m > most_rows) {
    return fmt::format("{} rows, at most {}: take gemm=library", op.m, most_rows);
  }
  if (op.weights != 1 && op.m > kRowsThatStream) {
    return fmt::format("{} rows of two weights, at most {}: take gemm=library", op.m,
                       kRowsThatStream);
  }
  const int step = kFewRowsBytes / num_bytes(op.dtype);
  if (op.n % step != 0 || op.k % step != 0) {
    return fmt::format("{} columns and K of {}, no multiples of {}: take gemm=library", op.n, op.k,
                       step);
  }
  // Owners of parts of a sum would send it on: theirs is no kernel that only receives.
  const int64_t out = op.m * op.n * num_bytes(op.dtype) * (op.ranks - 1);
  const int64_t most = op.ranks == 2 ? kMostOfTwo : most_of_one_shot(op.ranks, /*normed=*/false);
  if (op.adds_for_all() && out > most) {
    return fmt::format(
        "an all-reduce in two hops: {} bytes go out of a rank, in one hop at most {}: take "
        "gemm=library",
        out, most);
  }
  return "";
}

bool sends_in_time(const Segment& op, int sms) {
  if (op.local_m() <= kRowsThatStream) return !streams_in_rounds(op, sms);
  const FewRowsTile tile =
      few_rows_tile(op.local_m(), op.local_n(), op.local_k(), times_sent(op), sms);
  return tile.rounds == 1 || tile.sends_beside;
}

bool streams_in_rounds(const Segment& op, int sms) {
  constexpr int kBlocksOfSm = 2;
  return op.local_m() <= kRowsThatStream &&
         ceil_div(op.weights * op.local_n(), int64_t{device::kFewRowsColumns}) > kBlocksOfSm * sms;
}

double times_sent(const Segment& op) {
  if (op.kind.out == Edge::reduce_scatter) return times_sent(op.ranks, /*to_owners=*/true);
  return op.adds_for_all() ? times_sent(op.ranks, /*to_owners=*/false) : 0;
}

}  // namespace stretto
