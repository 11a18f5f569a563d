// The kernels of a fabric's GPUs, each compiled and loaded once, for all plans that use them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "gpu/compiler.h"
#include "gpu/few_rows_kernel.h"
#include "gpu/gemm_kernel.h"
#include "gpu/grouped_kernel.h"
#include "gpu/library_matmul.h"
#include "gpu/sync_kernels.h"
#include "lang/lang_kernel.h"

namespace stretto::runtime {

class KernelStore {
 public:
  // The compiler and the GPUs must outlive the store.
  explicit KernelStore(const cuda::Compiler& compiler) : compiler_(compiler) {}
  ~KernelStore();
  KernelStore(const KernelStore&) = delete;
  KernelStore& operator=(const KernelStore&) = delete;

  // For `device`, which must be current. They live as long as the store.
  const cuda::GemmKernel& gemm(const cuda::Device& device, const device::GemmConfig& config);
  const cuda::GroupedKernel& experts(const cuda::Device& device,
                                     const device::GroupedConfig& config);
  const cuda::FewRowsKernel& few_rows(const cuda::Device& device,
                                      const device::FewRowsConfig& config);
  // As mover_source().
  const cuda::Kernel& mover(const cuda::Device& device, bool norms, bool routes);
  // As pass_source().
  const cuda::Kernel& pass(const cuda::Device& device, bool routes);
  const cuda::Kernel& partition(const cuda::Device& device);
  const cuda::SyncKernels& sync(const cuda::Device& device);
  // cuBLAS, asked for at most so many proposals. To give it up waits for the whole GPU, and so ends
  // every capture that is under way there: not with each plan.
  cuda::MatmulLibrary& library(const cuda::Device& device, int most_proposals);
  // For at most `max_threads` threads a block.
  const cuda::LangKernel& lang(const cuda::Device& device, const cuda::LangKernelName& name,
                               int max_threads, int shared_bytes = 0);

 private:
  struct OfDevice {
    const cuda::Device* device = nullptr;
    std::map<std::string, std::unique_ptr<cuda::GemmKernel>> gemms;  // by description
    std::map<std::string, std::unique_ptr<cuda::GroupedKernel>> experts;
    std::map<std::string, std::unique_ptr<cuda::FewRowsKernel>> few_rows;
    std::unique_ptr<cuda::Kernel> movers[2][2];  // [norms][routes]
    std::unique_ptr<cuda::Kernel> passes[2];     // [routes]
    std::unique_ptr<cuda::Kernel> partition;
    std::unique_ptr<cuda::SyncKernels> sync;
    std::map<int, std::unique_ptr<cuda::MatmulLibrary>> libraries;  // by proposals
    // By name, most threads and shared memory: blocks that norm have as many threads as rows need.
    std::map<std::tuple<std::string, int, int>, std::unique_ptr<cuda::LangKernel>> langs;
  };
  OfDevice& of(const cuda::Device& device);

  const cuda::Compiler& compiler_;
  std::map<int, OfDevice> devices_;  // by index
};

}  // namespace stretto::runtime
