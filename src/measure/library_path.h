// What a program without Stretto calls for an operator: cuBLAS for each product, NCCL for each
// edge. Tokens that choose experts are gathered whole and sums of them scattered, for parts of
// other sizes would have to be known to the host. Where rows are only moved an all-to-all sends
// each where it is needed, of sizes that a program would wait for and only a benchmark knows.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "measure/bench_tensors.h"

namespace stretto::runtime {

// Which calls of the path.
enum class LibraryCalls : uint8_t { products, collectives, all };

class LibraryPath {
 public:
  explicit LibraryPath(const BenchTensors& tensors);
  ~LibraryPath();
  LibraryPath(const LibraryPath&) = delete;
  LibraryPath& operator=(const LibraryPath&) = delete;

  // Whether these calls, one after the other, make the operator: nothing stands between a product
  // and its collective, none has to be put together of columns, and no row chooses its matrix.
  bool is_whole() const;
  bool multiplies() const;
  bool communicates() const;
  // On the rank's stream, its GPU current. Of an operator that they do not make they work on
  // tensors of the same sizes.
  void enqueue(int rank, LibraryCalls calls) const;

 private:
  struct Rank {
    // What all ranks' rows are put together in, what products make, and what a rank then has.
    cuda::DeviceMemory rows, made, own;
  };
  const Rank& of(int rank) const {
    return ranks_[static_cast<size_t>(rank - tensors_.fabric().first_rank())];
  }
  void prepare(int rank);
  // The caller's, or what stands for what a stage makes.
  cuda::DevicePtr tensor(int rank, int id, const cuda::DeviceMemory& otherwise) const;
  void enqueue_input(int rank, size_t segment) const;
  void enqueue_products(int rank, const OperatorSegment& segment) const;
  // An expert at a time, of as many rows as it has. Only a benchmark knows how many: in a program
  // they lie in the GPU's memory, where cuBLAS takes no sizes from.
  void enqueue_experts(int rank, size_t segment) const;
  void all_to_all(int rank, const Segment& product, cuda::DevicePtr from, cuda::DevicePtr to,
                  const std::function<int64_t(int, int)>& elements) const;
  void exchange(int rank, const Segment& product, cuda::DevicePtr from, cuda::DevicePtr to,
                const ColShards& cols) const;
  void exchange_back(int rank, const Segment& product, cuda::DevicePtr from, cuda::DevicePtr to,
                     const ColShards& cols) const;
  // Of rows that are only moved: there, or back.
  void send_chosen(int rank, size_t segment, cuda::DevicePtr from, cuda::DevicePtr to,
                   bool back) const;
  void enqueue_output(int rank, size_t segment) const;

  const BenchTensors& tensors_;
  const Operator& op_;
  std::vector<std::vector<int64_t>> expert_rows_;  // by segment and matrix
  // By segment, where rows are only moved: tokens of each rank that go to each other rank.
  std::vector<std::vector<std::vector<int64_t>>> sent_;
  std::vector<Rank> ranks_;
};

}  // namespace stretto::runtime
