// CUDA's run-time compiler, found at run time. It needs no GPU and no driver.
#pragma once

#include <cstddef>
#include <string>

namespace stretto::cuda {

struct NvrtcProgramObject;
using NvrtcProgram = NvrtcProgramObject*;

// X(member, symbol, parameters)
#define STRETTO_NVRTC_FUNCTIONS(X)                                                          \
  X(version, nvrtcVersion, (int*, int*))                                                    \
  X(create, nvrtcCreateProgram,                                                             \
    (NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(destroy, nvrtcDestroyProgram, (NvrtcProgram*))                                          \
  X(compile, nvrtcCompileProgram, (NvrtcProgram, int, const char* const*))                  \
  X(cubin_size, nvrtcGetCUBINSize, (NvrtcProgram, size_t*))                                 \
  X(cubin, nvrtcGetCUBIN, (NvrtcProgram, char*))                                            \
  X(log_size, nvrtcGetProgramLogSize, (NvrtcProgram, size_t*))                              \
  X(log, nvrtcGetProgramLog, (NvrtcProgram, char*))

struct NvrtcApi {
#define STRETTO_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  STRETTO_NVRTC_FUNCTIONS(STRETTO_MEMBER)
#undef STRETTO_MEMBER
};

// Why kernels cannot be compiled here; empty when they can.
const std::string& why_no_compiler();

// Throws SystemError(why_no_compiler()).
const NvrtcApi& nvrtc();

// "nvrtc 13.0"
const std::string& compiler_version();
// One of its own: from 12.9 on. What comes out of it comes without a report.
bool compiler_has_cache();
// Which build of that version; empty where the library does not say.
const std::string& compiler_build();

}  // namespace stretto::cuda
