// Makes machine code of the text of a kernel, or takes it from the cache.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/embedded_text.h"
#include "gpu/jit_cache.h"
#include "stretto/error.h"

namespace stretto::cuda {

struct CompiledKernel {
  std::string cubin;
  std::string log;  // the compiler's resource report
  double compile_ms = 0;
  bool cached = false;
  bool kept = false;  // in the cache, now or before
};

// The text of a kernel is wrong. Who has it from a user says so instead, with what the compiler
// says.
class CompileError : public InternalError {
 public:
  CompileError(const std::string& what, std::string log)
      : InternalError(what), log_(std::move(log)) {}
  const std::string& log() const { return log_; }

 private:
  std::string log_;
};

// Everything that machine code depends on.
struct KernelInputs {
  std::string compiler;              // version and build
  std::vector<std::string> options;  // the architecture among them
  std::string_view source;
  std::span<const EmbeddedText> headers;
};
// What the cache knows a kernel by: another one for whatever differs.
std::string key_of(const KernelInputs& inputs);

// Bytes that the compiler moved between registers and memory, by the report of a compile.
int spilled_bytes(std::string_view log);
// The most registers that a thread of one of its kernels has.
int most_registers(std::string_view log);

class Compiler {
 public:
  explicit Compiler(JitCache cache = JitCache(default_cache_folder())) : cache_(std::move(cache)) {}

  // `source` may include the device headers as "stretto/device/...". `arch` is "sm_90a", "sm_89",
  // "sm_80". Throws SystemError without a compiler, CompileError when the source is wrong.
  CompiledKernel compile(std::string_view source, std::string_view arch) const;
  // Whether that would take it from the cache: a few milliseconds then, seconds else.
  bool is_kept(std::string_view source, std::string_view arch) const;

 private:
  JitCache cache_;
};

}  // namespace stretto::cuda
