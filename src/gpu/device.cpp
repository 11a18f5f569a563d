#include "gpu/device.h"

#include <fmt/format.h>

#include "gpu/shared_gpus.h"
#include "stretto/error.h"

namespace stretto::cuda {

int num_devices() {
  if (!why_no_driver().empty()) return 0;
  int count = 0;
  check(driver().device_count(&count), "count GPUs");
  return count;
}

namespace {

std::string name_of(DeviceId id) {
  char name[128] = {};
  check(driver().device_name(name, sizeof(name), id), "name a GPU");
  return name;
}

}  // namespace

std::string gpu_name() {
  if (num_devices() == 0) return {};
  DeviceId id = 0;
  check(driver().device_get(&id, 0), "open a GPU");
  return name_of(id);
}

Device::Device(int index, int ranks, int free_sms)
    : index_(index), ranks_(ranks), free_sms_(free_sms) {
  driver();
  if (index < 0 || index >= num_devices()) {
    throw SystemError(fmt::format("no GPU {}: this machine has {}", index, num_devices()));
  }
  check(driver().device_get(&id_, index), "open a GPU");
  name_ = name_of(id_);
  const auto attribute = [&](DeviceAttribute which) {
    int value = 0;
    check(driver().device_attribute(&value, which, id_), "query a GPU");
    return value;
  };
  const int all = attribute(kAttributeSmCount);
  if (free_sms < 0 || free_sms > all / 2) {
    throw UsageError(
        fmt::format("free_sms={}: of the {} SMs of {} 0 to {} can be left to other kernels",
                    free_sms, all, name_, all / 2));
  }
  num_sms_ = sms_a_rank(all - free_sms, ranks);
  max_shared_bytes_ = attribute(kAttributeSharedBytesPerBlock);
  major_ = attribute(kAttributeComputeMajor);
  minor_ = attribute(kAttributeComputeMinor);
  check(driver().context_retain(&context_, id_), "open a GPU's context");
  try {
    make_current();
    copies_ = copy_stream_of(context_);
  } catch (...) {
    driver().context_release(id_);
    throw;
  }
}

Device::~Device() {
  driver().context_set(context_);
  copies_.reset();
  driver().context_release(id_);
}

void Device::make_current() const { check(driver().context_set(context_), "select a GPU"); }

std::string uuid_of(DeviceId id) {
  DeviceUuid uuid{};
  check(driver().device_uuid(&uuid, id), "identify a GPU");
  std::string text;
  for (const unsigned char byte : uuid.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

size_t Device::free_bytes() const {
  size_t free = 0, all = 0;
  check(driver().memory_info(&free, &all), "ask for a GPU's free memory");
  return free;
}

std::string Device::arch() const {
  return fmt::format("sm_{}{}{}", major_, minor_, major_ == 9 ? "a" : "");
}

DeviceMemory::DeviceMemory(size_t num_bytes) : num_bytes_(num_bytes) {
  // The driver refuses to allocate nothing; an owner of nothing is useful.
  const Result result = driver().alloc(&address_, num_bytes == 0 ? 16 : num_bytes);
  if (result == kOutOfMemory) {
    throw SystemError(fmt::format("out of GPU memory: {} bytes do not fit", num_bytes));
  }
  check(result, "allocate GPU memory");
}

DeviceMemory::~DeviceMemory() {
  if (address_ != 0) driver().free(address_);
}

void DeviceMemory::upload(const void* from, size_t num_bytes, size_t offset) {
  copy_to_gpu(address_ + offset, from, num_bytes);
}

void DeviceMemory::download(void* to, size_t num_bytes, size_t offset) const {
  copy_from_gpu(to, address_ + offset, num_bytes);
}

namespace {

// The usual one is 0; the higher ones are below.
int number_of(Stream::Priority priority) {
  int lowest = 0, highest = 0;
  check(driver().stream_priorities(&lowest, &highest), "ask for the priorities of streams");
  return priority == Stream::Priority::highest ? highest : 0;
}

}  // namespace

Stream::Stream(Priority priority) : Stream(number_of(priority)) {}
Stream::Stream(int priority) {
  check(driver().stream_create(&handle_, kStreamNonBlocking, priority), "make a stream");
}
Stream::~Stream() {
  if (owned_) driver().stream_destroy(handle_);
}
void Stream::synchronize() const {
  check(driver().stream_synchronize(handle_), "wait for a GPU's stream");
}

bool Stream::idle() const {
  const Result result = driver().stream_query(handle_);
  if (result != kNotReady) check(result, "ask for a GPU's progress");
  return result == kSuccess;
}

std::optional<uint64_t> Stream::capture() const {
  int status = 0;
  uint64_t capture = 0;
  check(driver().capture_info(handle_, &status, &capture, nullptr, nullptr, nullptr),
        "ask whether a stream is captured");
  return status == 0 ? std::nullopt : std::optional(capture);
}

int Stream::priority() const {
  int priority = 0;
  check(driver().stream_priority(handle_, &priority), "ask for a stream's priority");
  return priority;
}

void Stream::wait(const Event& event) const {
  check(driver().stream_wait_event(handle_, event.handle(), 0), "order two streams");
}

Event::Event(bool timed) {
  check(driver().event_create(&handle_, timed ? 0 : kEventUntimed), "make an event");
}
Event::~Event() { driver().event_destroy(handle_); }
bool Event::has_passed() const {
  const Result result = driver().event_query(handle_);
  if (result != kNotReady) check(result, "ask for an event");
  return result == kSuccess;
}

void Event::record(const Stream& stream) {
  check(driver().event_record(handle_, stream.handle()), "record an event");
}
double Event::elapsed_us_since(const Event& start) const {
  float elapsed_ms = 0;
  check(driver().event_elapsed_ms(&elapsed_ms, start.handle_, handle_), "time two events");
  return elapsed_ms * 1000.0;
}

Kernel::Kernel(const std::string& cubin, const char* name, int dynamic_shared_bytes)
    : dynamic_shared_bytes_(dynamic_shared_bytes) {
  ModuleHandle module = nullptr;
  check(driver().module_load(&module, cubin.data()), "load a kernel");
  module_.reset(module);
  check(driver().module_function(&function_, module, name), "find a kernel");
  check(driver().function_set_attribute(function_, kFunctionMaxDynamicSharedBytes,
                                        dynamic_shared_bytes),
        "reserve a kernel's shared memory");
}

int Kernel::attribute(FunctionAttribute which) const {
  int value = 0;
  check(driver().function_attribute(&value, which, function_), "query a kernel");
  return value;
}

int Kernel::blocks_of_an_sm(int threads) const {
  int blocks = 0;
  check(driver().resident_blocks(&blocks, function_, threads,
                                 static_cast<size_t>(dynamic_shared_bytes_)),
        "query a kernel's blocks");
  return blocks;
}

int Kernel::resident_clusters(int threads, int cluster) const {
  LaunchAttribute attribute{};
  attribute.id = kLaunchCluster;
  attribute.value.cluster = {static_cast<unsigned>(cluster), 1, 1};
  LaunchConfig config{};
  config.grid_x = static_cast<unsigned>(cluster);
  config.grid_y = config.grid_z = config.block_y = config.block_z = 1;
  config.block_x = static_cast<unsigned>(threads);
  config.shared_bytes = static_cast<unsigned>(dynamic_shared_bytes_);
  config.attributes = &attribute;
  config.num_attributes = 1;
  int clusters = 0;
  check(driver().resident_clusters(&clusters, function_, &config), "query a kernel's clusters");
  return clusters;
}

void Kernel::launch(const Stream& stream, int blocks, int threads, int cluster,
                    const void* parameters, bool overlap) const {
  LaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (cluster > 1) {
    attributes[count].id = kLaunchCluster;
    attributes[count++].value.cluster = {static_cast<unsigned>(cluster), 1, 1};
  }
  if (overlap) {
    attributes[count].id = kLaunchOverlap;
    attributes[count++].value.overlap = 1;
  }
  LaunchConfig config{};
  config.grid_x = static_cast<unsigned>(blocks);
  config.grid_y = config.grid_z = config.block_y = config.block_z = 1;
  config.block_x = static_cast<unsigned>(threads);
  config.shared_bytes = static_cast<unsigned>(dynamic_shared_bytes_);
  config.stream = stream.handle();
  config.attributes = attributes;
  config.num_attributes = count;
  void* arguments[] = {const_cast<void*>(parameters)};
  check(driver().launch(&config, function_, arguments, nullptr), "launch a kernel");
}

}  // namespace stretto::cuda
