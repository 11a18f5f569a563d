// A compiler of kernels that makes nothing of them, at once.
//   STUB_NVRTC_VERSION=12.9     its version; 13.0 when unset
//   STUB_NVRTC_SPILLS=a_kernel  sources with this word spill 20 bytes
//   STUB_NVRTC_FAILS=1          it does not hand over what it has made
//   STUB_NVRTC_REFUSES=a_kernel sources with this word do not compile
//   STUB_NVRTC_SAYS="no f"      what it says of these; nothing when unset
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "gpu/nvrtc_api.h"

namespace stretto::cuda {

struct NvrtcProgramObject {
  std::string source, log, cubin;
};

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  if (const char* text = std::getenv("STUB_NVRTC_VERSION"))
    std::sscanf(text, "%d.%d", major, minor);
  return 0;
}

int nvrtcCreateProgram(NvrtcProgram* program, const char* source, const char*, int,
                       const char* const*, const char* const*) {
  *program = new NvrtcProgramObject{source, "", ""};
  return 0;
}

int nvrtcDestroyProgram(NvrtcProgram* program) {
  delete *program;
  return 0;
}

// From 12.9 on it has a cache, out of which kernels come without a report.
int nvrtcCompileProgram(NvrtcProgram program, int count, const char* const* options) {
  constexpr int kInvalidOption = 5;
  int major = 0, minor = 0;
  nvrtcVersion(&major, &minor);
  const bool has_cache = std::pair(major, minor) >= std::pair(12, 9);
  const bool without = std::any_of(options, options + count, [](const char* option) {
    return std::strcmp(option, "--no-cache") == 0;
  });
  if (without && !has_cache) return kInvalidOption;
  if (!without && has_cache) {
    program->cubin.assign(100'000, 'c');
    return 0;
  }
  const auto has_word_of = [&](const char* variable) {
    const char* const word = std::getenv(variable);
    return word != nullptr && program->source.find(word) != std::string::npos;
  };
  if (has_word_of("STUB_NVRTC_REFUSES")) {
    constexpr int kInternalError = 11, kCompilation = 6;
    const char* const says = std::getenv("STUB_NVRTC_SAYS");
    if (says == nullptr) return kInternalError;
    program->log = says;
    return kCompilation;
  }
  const bool spills = has_word_of("STUB_NVRTC_SPILLS");
  program->log = spills ? "8 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n" : "";
  program->log += "Used 40 registers";
  program->cubin.assign(100'000, 'c');  // about what a kernel has
  return 0;
}

int nvrtcGetCUBINSize(NvrtcProgram program, size_t* size) {
  *size = program->cubin.size();
  return 0;
}

int nvrtcGetCUBIN(NvrtcProgram program, char* cubin) {
  constexpr int kInvalidProgram = 4;
  if (std::getenv("STUB_NVRTC_FAILS") != nullptr) return kInvalidProgram;
  std::memcpy(cubin, program->cubin.data(), program->cubin.size());
  return 0;
}

int nvrtcGetProgramLogSize(NvrtcProgram program, size_t* size) {
  *size = program->log.size() + 1;
  return 0;
}

int nvrtcGetProgramLog(NvrtcProgram program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return 0;
}

}  // extern "C"

}  // namespace stretto::cuda
