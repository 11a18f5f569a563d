#include "gpu/test_data.h"

#include <cmath>
#include <limits>

#include "gpu/device_types.h"

namespace stretto::cuda {
namespace {

constexpr const char* kSource = R"(#include "stretto/device/test_data.h"
using namespace stretto::device;
extern "C" __global__ void stretto_fill(const __grid_constant__ FillParams params) {
  fill_elements(params);
}
extern "C" __global__ void stretto_compare(const __grid_constant__ CompareParams params) {
  compare_elements(params);
}
extern "C" __global__ void stretto_multiply(const __grid_constant__ ReferenceParams params) {
  multiply_reference(params);
}
extern "C" __global__ void stretto_evaluate(const __grid_constant__ StageParams params) {
  evaluate_stage(params);
}
)";
constexpr int kThreads = 512;

}  // namespace

std::string test_data_source() { return kSource; }

TestData::TestData(const Device& device, const Compiler& compiler)
    : cubin_(compiler.compile(kSource, device.arch()).cubin),
      fill_(cubin_, "stretto_fill", 0),
      compare_(cubin_, "stretto_compare", 0),
      multiply_(cubin_, "stretto_multiply", 0),
      evaluate_(cubin_, "stretto_evaluate", 0),
      blocks_(device.num_sms() * 4) {}

void TestData::fill(const Stream& stream, DevicePtr to, int64_t count, DType dtype,
                    device::Fill fill, uint64_t seed, float scale) const {
  const device::FillParams params{reinterpret_cast<void*>(to),
                                  static_cast<uint64_t>(count),
                                  seed,
                                  device_type<device::Element>(dtype),
                                  fill,
                                  scale,
                                  0};
  fill_.launch(stream, blocks_, kThreads, 1, &params);
}

device::Comparison TestData::compare(const Stream& stream, DevicePtr values, DType dtype,
                                     DevicePtr reference, int64_t count) const {
  device::Comparison result{};
  DeviceMemory memory(sizeof(result));
  memory.upload(&result, sizeof(result));
  const device::CompareParams params{
      reinterpret_cast<const void*>(values), reinterpret_cast<const float*>(reference),
      memory.as<device::Comparison>(),       static_cast<uint64_t>(count),
      device_type<device::Element>(dtype),   0};
  compare_.launch(stream, blocks_, kThreads, 1, &params);
  stream.synchronize();
  memory.download(&result, sizeof(result));
  return result;
}

void TestData::multiply(const Stream& stream, DevicePtr a, DevicePtr b, DevicePtr c, int64_t m,
                        int64_t n, int64_t k, DType dtype) const {
  const device::ReferenceParams params{reinterpret_cast<const void*>(a),
                                       reinterpret_cast<const void*>(b),
                                       reinterpret_cast<float*>(c),
                                       static_cast<uint64_t>(m),
                                       static_cast<uint64_t>(n),
                                       static_cast<uint64_t>(k),
                                       device_type<device::Element>(dtype),
                                       0};
  multiply_.launch(stream, blocks_, kThreads, 1, &params);
}

void TestData::evaluate(const Stream& stream, const device::StageParams& params) const {
  evaluate_.launch(stream, blocks_, kThreads, 1, &params);
}

double relative_error(const device::Comparison& comparison) {
  if (comparison.not_finite > 0) return std::numeric_limits<double>::infinity();
  if (comparison.reference_squares == 0) return std::sqrt(comparison.error_squares);
  return std::sqrt(comparison.error_squares / comparison.reference_squares);
}

}  // namespace stretto::cuda
