#include "streams/kernel_store.h"

namespace stretto::runtime {

KernelStore::~KernelStore() {
  for (auto& [index, of_device] : devices_) {
    cuda::driver().context_set(of_device.device->context());
    of_device = {};
  }
}

KernelStore::OfDevice& KernelStore::of(const cuda::Device& device) {
  OfDevice& found = devices_[device.index()];
  found.device = &device;
  return found;
}

const cuda::GemmKernel& KernelStore::gemm(const cuda::Device& device,
                                          const device::GemmConfig& config) {
  auto& found = of(device).gemms[cuda::describe(config)];
  if (!found) found = std::make_unique<cuda::GemmKernel>(device, compiler_, config);
  return *found;
}

const cuda::GroupedKernel& KernelStore::experts(const cuda::Device& device,
                                                const device::GroupedConfig& config) {
  auto& found = of(device).experts[cuda::describe(config)];
  if (!found) found = std::make_unique<cuda::GroupedKernel>(device, compiler_, config);
  return *found;
}

const cuda::FewRowsKernel& KernelStore::few_rows(const cuda::Device& device,
                                                 const device::FewRowsConfig& config) {
  auto& found = of(device).few_rows[cuda::describe(config)];
  if (!found) found = std::make_unique<cuda::FewRowsKernel>(device, compiler_, config);
  return *found;
}

const cuda::Kernel& KernelStore::mover(const cuda::Device& device, bool norms, bool routes) {
  auto& found = of(device).movers[norms ? 1 : 0][routes ? 1 : 0];
  if (!found) {
    found = std::make_unique<cuda::Kernel>(
        compiler_.compile(cuda::mover_source(norms, routes), device.arch()).cubin, "stretto_mover",
        device::kMoverSharedBytes);
  }
  return *found;
}

const cuda::Kernel& KernelStore::pass(const cuda::Device& device, bool routes) {
  auto& found = of(device).passes[routes ? 1 : 0];
  if (!found) {
    found = std::make_unique<cuda::Kernel>(
        compiler_.compile(cuda::pass_source(routes), device.arch()).cubin, "stretto_pass", 0);
  }
  return *found;
}

const cuda::Kernel& KernelStore::partition(const cuda::Device& device) {
  auto& found = of(device).partition;
  if (!found) {
    found = std::make_unique<cuda::Kernel>(
        compiler_.compile(cuda::partition_source(), device.arch()).cubin, "stretto_partition",
        device::kPartitionSharedBytes);
  }
  return *found;
}

const cuda::SyncKernels& KernelStore::sync(const cuda::Device& device) {
  auto& found = of(device).sync;
  if (!found) found = std::make_unique<cuda::SyncKernels>(device, compiler_);
  return *found;
}

cuda::MatmulLibrary& KernelStore::library(const cuda::Device& device, int most_proposals) {
  auto& found = of(device).libraries[most_proposals];
  if (!found) found = std::make_unique<cuda::MatmulLibrary>(most_proposals);
  return *found;
}

const cuda::LangKernel& KernelStore::lang(const cuda::Device& device,
                                          const cuda::LangKernelName& name, int max_threads,
                                          int shared_bytes) {
  // Headers of a user's own may have kernels of one name.
  auto& found = of(device).langs[{name.kernel + name.text, max_threads, shared_bytes}];
  if (!found) {
    found = std::make_unique<cuda::LangKernel>(device, compiler_, name, max_threads, shared_bytes);
  }
  return *found;
}

}  // namespace stretto::runtime
