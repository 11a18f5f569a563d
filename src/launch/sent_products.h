// Products of few rows (gemm few-rows), whose kernel sends what it has multiplied to the collective
// behind it: which one that is. What none takes so is stored, as by a library.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gpu/few_rows_kernel.h"
#include "launch/library_products.h"
#include "stretto/plan.h"

namespace stretto::cuda {

// Who reads what the products store; of a plan without few rows nobody is asked for.
class SentProducts {
 public:
  explicit SentProducts(const Plan& plan);

  // Why the product of a kernel of few rows is not sent; empty when it is. Then nothing but a
  // collective of its rank reads it, which takes nothing else: so nobody misses it in memory, where
  // it never gets. The collective's kernel may begin before the product has ended, and writes a row
  // once all ranks have sent it: it writes nothing that the product reads.
  std::string why_not(const Product& product) const;
  // Those that read what it stores: one collective where why_not() is empty.
  const std::vector<InstrRef>& readers_of(const Region& stored) const;

 private:
  const Plan& plan_;
  std::map<std::pair<uint16_t, uint16_t>, std::vector<InstrRef>> readers_;  // by rank and buffer
};

FewRowsShape few_rows_shape(const Plan& plan, const Product& one);
// Why the kernel of few rows does not multiply the products of one kernel; empty when it does.
std::string why_no_few_rows(const Plan& plan, const std::vector<Product>& products);

// Says of the GEMM kernels of few rows which step receives what they send, as far as there is one.
// A plan with faults has none.
void find_receivers(const Plan& plan, const TileSums& sums, std::vector<RankProgram>& programs);

}  // namespace stretto::cuda
