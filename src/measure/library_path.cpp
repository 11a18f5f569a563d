#include "measure/library_path.h"

#include <algorithm>

#include "measure/expert_rows.h"
#include "run/rank_threads.h"

namespace stretto::runtime {

using cuda::DeviceMemory;
using cuda::Matrix;

namespace {

// The columns of look-ups: a rank has those of whole tables.
ColShards by_tables(const Segment& product) {
  const int64_t of_table = product.n / product.tables;
  return {product.n, product.ranks, of_table, of_table};
}

// Who makes its collectives: 0: all ranks.
int team_of(const Segment& product) { return product.teams > 1 ? product.ranks : 0; }

}  // namespace

LibraryPath::LibraryPath(const BenchTensors& tensors)
    : tensors_(tensors),
      op_(tensors.op()),
      ranks_(static_cast<size_t>(tensors.fabric().num_local())) {
  for (const OperatorSegment& segment : op_.segments) {
    const bool is_routed = segment.product && segment.product->is_routed();
    expert_rows_.push_back(is_routed ? expert_rows(op_, segment, tensors.input_data())
                                     : std::vector<int64_t>());
    sent_.emplace_back();
    if (is_routed && segment.product->only_moves() && takes_routing(op_)) {
      sent_.back() = tokens_sent(op_, segment, tensors.input_data());
    }
    if (tensors.nccl() == nullptr) continue;
    const int team = segment.is_gather() ? op_.tensor(segment.input).team
                     : segment.product   ? team_of(*segment.product)
                                         : 0;
    if (team > 1) tensors.nccl()->connect_teams(team, tensors.fabric().group());
  }
  tensors.fabric().group().together("preparing the library path's tensors", [&] {
    on_rank_threads(tensors.fabric(), [&](int rank) { prepare(rank); });
  });
}

LibraryPath::~LibraryPath() {
  const fabric::Fabric& fabric = tensors_.fabric();
  for (size_t i = 0; i < ranks_.size(); ++i) {
    cuda::driver().context_set(fabric.device(fabric.first_rank() + static_cast<int>(i)).context());
    ranks_[i] = Rank();
  }
}

bool LibraryPath::is_whole() const {
  const Segment* only = op_.only_product();
  return only != nullptr && op_.stages.size() == 1 && !only->exchanges() && !only->is_routed();
}

bool LibraryPath::multiplies() const {
  return std::any_of(op_.segments.begin(), op_.segments.end(), [](const OperatorSegment& segment) {
    return segment.product && !segment.product->looks_up() && !segment.product->only_moves();
  });
}

bool LibraryPath::communicates() const {
  return op_.ranks > 1 && tensors_.nccl() != nullptr &&
         std::any_of(op_.segments.begin(), op_.segments.end(), [](const OperatorSegment& segment) {
           return segment.is_gather() || (segment.product && segment.product->communicates());
         });
}

void LibraryPath::prepare(int rank) {
  int64_t rows = 1, made = 1, own = 1;  // elements
  for (const OperatorSegment& segment : op_.segments) {
    if (segment.is_gather()) {
      const Tensor& of = op_.tensor(segment.input);
      const int64_t block = RowShards{of.rows, op_.ranks}.block();
      rows = std::max(rows, block * op_.team_ranks(of) * of.cols);
      own = std::max(own, block * of.cols);
    }
    if (!segment.product) continue;
    const Segment& product = *segment.product;
    const int64_t block = product.row_shards().block(), all = block * product.ranks;
    if (product.looks_up()) {  // there is no call for them, but for what moves
      made = std::max(made, all * by_tables(product).block());
      own = std::max(own, block * product.n);
      continue;
    }
    if (product.is_routed()) {  // no more rows than there are choices; terms are of all tokens
      const int64_t choices = op_.tensor(segment.ids).rows * op_.tensor(segment.ids).cols;
      rows = std::max(rows, choices * product.local_k());
      made = std::max({made, choices * product.local_n(), all * product.n});
    }
    rows = std::max({rows, all * product.local_k(), product.product_cols() * product.local_k()});
    made = std::max(made, all * product.local_n());
    own = std::max(own, block * std::max(product.n, product.k));
    for (const int64_t cols : {product.n, product.k}) {  // of more columns a block may be smaller
      own = std::max(own, product.m * product.shares_of(cols).block());
    }
  }
  auto& mine = ranks_[static_cast<size_t>(rank - tensors_.fabric().first_rank())];
  const int size = num_bytes(op_.dtype);
  const auto make = [&](int64_t elements, uint64_t seed) {
    DeviceMemory memory(static_cast<size_t>(elements * size));
    tensors_.data(rank).fill(tensors_.stream(rank), memory.address(), elements, op_.dtype,
                             device::Fill::normal, seed);
    return memory;
  };
  mine.rows = make(rows, 101);
  mine.made = make(made, 102);
  mine.own = make(own, 103);
  tensors_.stream(rank).synchronize();
}

cuda::DevicePtr LibraryPath::tensor(int rank, int id, const DeviceMemory& otherwise) const {
  return op_.tensor(id).stage < 0 ? tensors_.input(rank, id) : otherwise.address();
}

void LibraryPath::enqueue(int rank, LibraryCalls calls) const {
  const bool products = calls != LibraryCalls::collectives;
  const bool collectives = calls != LibraryCalls::products;
  for (size_t i = 0; i < op_.segments.size(); ++i) {
    const OperatorSegment& segment = op_.segments[i];
    const int ranks = segment.is_gather() ? op_.team_ranks(op_.tensor(segment.input))
                      : segment.product   ? segment.product->ranks
                                          : 1;
    if (collectives && ranks > 1) enqueue_input(rank, i);
    if (products && segment.product && segment.product->is_routed()) enqueue_experts(rank, i);
    if (products && segment.product) enqueue_products(rank, segment);
    if (collectives && ranks > 1) enqueue_output(rank, i);
  }
}

void LibraryPath::enqueue_input(int rank, size_t number) const {
  const OperatorSegment& segment = op_.segments[number];
  const Rank& mine = of(rank);
  const cuda::Stream& stream = tensors_.stream(rank);
  const cuda::DevicePtr from = tensor(rank, segment.input, mine.own);
  if (segment.is_gather()) {
    const Tensor& of = op_.tensor(segment.input);
    const int64_t block = RowShards{of.rows, op_.ranks}.block();
    tensors_.nccl()->all_gather({rank, of.team}, stream, from, mine.rows.address(), block * of.cols,
                                op_.dtype);
    return;
  }
  if (!segment.product) return;
  const Segment& product = *segment.product;
  const int64_t block = product.row_shards().block();
  if (product.kind.in == Edge::dispatch && !sent_[number].empty()) {
    send_chosen(rank, number, mine.made.address(), mine.rows.address(), false);
  } else if (kind_of(product.kind.in).feeds && !product.exchanges_input()) {
    tensors_.nccl()->all_gather({rank, team_of(product)}, stream, from, mine.rows.address(),
                                block * product.k, op_.dtype);
  } else if (product.exchanges_input() && product.turns_columns()) {
    exchange_back(rank, product, from, mine.rows.address(), product.shares_of(product.k));
  } else if (product.exchanges_input()) {
    exchange(rank, product, from, mine.rows.address(), product.shares_of(product.k));
  }
}

// `elements(a, b)`: of the part that goes from rank a of a team to rank b.
void LibraryPath::all_to_all(int rank, const Segment& product, cuda::DevicePtr from,
                             cuda::DevicePtr to,
                             const std::function<int64_t(int, int)>& elements) const {
  std::vector<int64_t> sent, received;
  const int own = rank % product.ranks;
  for (int peer = 0; peer < product.ranks; ++peer) {
    sent.push_back(elements(own, peer));
    received.push_back(elements(peer, own));
  }
  tensors_.nccl()->all_to_all({rank, team_of(product)}, tensors_.stream(rank), from, sent, to,
                              received, op_.dtype);
}

// A rank has put those of each other rank together, in as much memory as they take.
void LibraryPath::send_chosen(int rank, size_t segment, cuda::DevicePtr from, cuda::DevicePtr to,
                              bool back) const {
  const int64_t columns = op_.segments[segment].product->n;
  all_to_all(rank, *op_.segments[segment].product, from, to, [&](int a, int b) {
    const auto source = static_cast<size_t>(back ? b : a),
               target = static_cast<size_t>(back ? a : b);
    return sent_[segment][source][target] * columns;
  });
}

// Rows to their owners, of which every rank has columns.
void LibraryPath::exchange(int rank, const Segment& product, cuda::DevicePtr from,
                           cuda::DevicePtr to, const ColShards& cols) const {
  const RowShards rows = product.row_shards();
  all_to_all(rank, product, from, to, [&](int a, int b) { return rows.size(b) * cols.size(a); });
}

// Columns to their owners, of which every rank has rows.
void LibraryPath::exchange_back(int rank, const Segment& product, cuda::DevicePtr from,
                                cuda::DevicePtr to, const ColShards& cols) const {
  const RowShards rows = product.row_shards();
  all_to_all(rank, product, from, to, [&](int a, int b) { return rows.size(a) * cols.size(b); });
}

void LibraryPath::enqueue_products(int rank, const OperatorSegment& segment) const {
  const Rank& mine = of(rank);
  const Segment& product = *segment.product;
  if (!product.is_dense()) return;
  const int64_t k = product.local_k(), n = product.local_n(), m = product.local_m();
  const bool is_moved = segment.is_fed || (product.kind.in != Edge::none && product.ranks > 1);
  const cuda::DevicePtr a = is_moved ? mine.rows.address() : tensor(rank, segment.input, mine.rows);
  for (const int weight : segment.weights) {
    tensors_.cublas(rank).multiply({a, m, k, k, op_.dtype},
                                   {tensor(rank, weight, mine.rows), n, k, k, op_.dtype},
                                   {mine.made.address(), m, n, n, op_.dtype});
  }
}

void LibraryPath::enqueue_experts(int rank, size_t segment) const {
  const Rank& mine = of(rank);
  for (const int weight : op_.segments[segment].weights) {
    const OwnMatrices own = own_matrices(op_, weight, rank);
    if (own.count == 0) continue;
    const Slice slice = slice_of(op_, weight, op_.tensor(weight).held, rank);
    const int64_t n = slice.rows() / own.count, k = slice.cols(), size = num_bytes(op_.dtype);
    int64_t row = 0;  // rows of experts lie below one another
    for (int64_t i = 0; i < own.count; ++i) {
      const int64_t rows = expert_rows_[segment][static_cast<size_t>(own.first + i)];
      if (rows == 0) continue;
      const auto at = [&](cuda::DevicePtr begin, int64_t elements) {
        return begin + static_cast<uint64_t>(elements * size);
      };
      tensors_.cublas(rank).multiply(
          {at(mine.rows.address(), row * k), rows, k, k, op_.dtype},
          {at(tensors_.input(rank, weight), i * n * k), n, k, k, op_.dtype},
          {at(mine.made.address(), row * n), rows, n, n, op_.dtype});
      row += rows;
    }
  }
}

void LibraryPath::enqueue_output(int rank, size_t number) const {
  const OperatorSegment& segment = op_.segments[number];
  if (!segment.product) return;
  const Rank& mine = of(rank);
  const cuda::Stream& stream = tensors_.stream(rank);
  const Segment& product = *segment.product;
  const int64_t block = product.row_shards().block();
  const cuda::DevicePtr made = mine.made.address(), own = mine.own.address();
  if (product.kind.out == Edge::combine && !sent_[number].empty()) {
    return send_chosen(rank, number, mine.rows.address(), made, true);
  }
  const EdgeKind& edge = kind_of(product.kind.out);
  if (edge.exchanges && product.looks_up()) {
    exchange(rank, product, made, own, by_tables(product));
  } else if (edge.exchanges && product.turns_columns()) {
    exchange(rank, product, made, own, product.shares_of(product.n));
  } else if (edge.exchanges) {
    exchange_back(rank, product, made, own, product.shares_of(product.n));
  } else if (edge.adds && edge.reaches_all) {
    tensors_.nccl()->all_reduce({rank, team_of(product)}, stream, made, made, product.m * product.n,
                                op_.dtype);
  } else if (edge.adds) {
    tensors_.nccl()->reduce_scatter({rank, team_of(product)}, stream, made, own, block * product.n,
                                    op_.dtype);
  } else {
    STRETTO_ASSERT(!edge.drains, "NCCL has a path for each edge that drains a product");
  }
}

}  // namespace stretto::runtime
