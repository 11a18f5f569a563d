// The products of a rank's runs that cuBLAS multiplies: what multiplies each is chosen before runs,
// and found again for the tensors of a call.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "calls/rows_of_call.h"
#include "gpu/library_matmul.h"
#include "launch/call_places.h"
#include "launch/library_products.h"
#include "streams/launch_setup.h"
#include "streams/whole_product.h"

namespace stretto::runtime {

class LibraryLaunches {
 public:
  struct Setup : LaunchSetup {
    bool serves = false;          // runs may have fewer rows
    bool rows_in_memory = false;  // and memory may say how many
    bool has_calls = false;       // that name the caller's tensors
    // Of which of the operator's products cuBLAS's first algorithm takes the place of the plan's
    // (none: of no one), and how many it may propose.
    std::vector<bool> first_algorithms = {};
    int most_proposals = kMostAlgorithms;
  };
  explicit LibraryLaunches(Setup setup) : setup_(std::move(setup)) {}

  // The products of a kernel of the plan's, by the algorithm that the plan asks for, on so many
  // SMs, 0: all. Which kernel they are is counted from 0; another's may be none of cuBLAS.
  void add(const std::vector<cuda::Product>& products, int algorithm, int sms);
  void add_none() { by_kernel_.emplace_back(static_cast<size_t>(setup_.sets)); }
  // Once all are added.
  void take_memory();

  bool is_any() const { return library_ != nullptr; }
  bool has(uint32_t number) const { return !by_kernel_[number].front().empty(); }
  // Whether what they read or write lies elsewhere from one run to the next.
  bool alternates() const;
  // Those of kernel `number`.
  void launch(uint32_t number, const cuda::Stream& stream, int set, const RowsOfCall& rows,
              cuda::CallPlaces places);
  // All once, with every algorithm that runs may take.
  void launch_every_algorithm(const cuda::Stream& stream, cuda::CallPlaces places);
  // By product of the operator: the fewest algorithms that a library proposes where the plan asks
  // for another; kMostAlgorithms: it proposes all that are asked for.
  std::vector<int> num_proposed() const;
  // Of the weights that are multiplied at once, the largest.
  size_t most_weight_bytes() const;

 private:
  // Rows of a product for fewer rows than this are multiplied as this many would be; and rows that
  // a product has which only loads what multiplies it.
  static constexpr int64_t kFewestRows = 16, kSpareRows = 8;
  // Products that lie alike share what multiplies them.
  struct MatrixProduct {
    size_t matmul = 0;
    cuda::LibraryMatmul::Places places;
    std::array<cuda::Matrix, 3> matrices = {};  // A, B and C
    int sms = 0, algorithm = 0;
    size_t of = 0;           // which product of the operator it is
    bool is_result = false;  // the caller's, where rows beyond a run's stay as they were
    // Each of several weights by itself, where only a call says whether they lie behind one
    // another.
    std::vector<MatrixProduct> by_weight = {};
  };
  struct SharedMatmul {
    std::array<cuda::Matrix, 3> shape;  // their addresses are what these are multiples of
    int sms;                            // that it may have, 0: all
    int algorithm;                      // that is asked for
    cuda::LibraryMatmul matmul;
  };

  // Of results beside one another: one product where the weights lie behind one another.
  std::vector<MatrixProduct> products_beside(const std::vector<cuda::Product>& beside,
                                             const MatrixProduct& like, int set);
  void choose_matmul(MatrixProduct& product);  // by its matrices
  size_t matmul_at_call(const MatrixProduct& product, const cuda::LibraryMatmul::Places& at,
                        cuda::CallPlaces places);
  void multiply(const MatrixProduct& product, const cuda::Stream& stream, const RowsOfCall& rows,
                cuda::CallPlaces places);
  // Of all sets; and, where weights may lie behind one another, of each of them by itself too.
  void for_each_product(const std::function<void(const MatrixProduct&)>& visit) const;

  Setup setup_;
  cuda::MatmulLibrary* library_ = nullptr;  // where it multiplies
  std::vector<SharedMatmul> matmuls_;
  std::vector<std::vector<std::vector<MatrixProduct>>> by_kernel_;  // [kernel][set]
  cuda::DeviceMemory workspace_, spare_rows_;
  std::vector<cuda::DeviceMemory> former_workspaces_;  // runs may still use them
  size_t most_row_bytes_ = 0;                          // of results
  std::optional<WholeProduct> whole_product_;  // where memory may say the rows of the result
};

}  // namespace stretto::runtime
