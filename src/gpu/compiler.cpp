#include "gpu/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <regex>
#include <vector>

#include "gpu/nvrtc_api.h"
#include "stretto/error.h"

namespace stretto::cuda {
namespace {

std::vector<std::string> options_for(std::string_view arch) {
  std::vector<std::string> options = {fmt::format("--gpu-architecture={}", arch), "--std=c++20",
                                      "--ptxas-options=-v"};
  if (compiler_has_cache()) options.emplace_back("--no-cache");
  return options;
}

void check_nvrtc(int status, const char* what) {
  if (status == 0) return;
  throw SystemError(
      fmt::format("the CUDA run-time compiler could not {} (status {})", what, status));
}

// What the compiler has of a size that it tells first.
template <typename Size, typename Read>
std::string read_text(const Size& size, const Read& read, const char* what) {
  size_t num_bytes = 0;
  check_nvrtc(size(&num_bytes), what);
  std::string text(num_bytes, '\0');
  check_nvrtc(read(text.data()), what);
  return text;
}

class Program {
 public:
  explicit Program(const std::string& source) {
    std::vector<const char*> texts, names;
    for (const EmbeddedText& header : device_sources()) {
      names.push_back(header.name);
      texts.push_back(header.text);
    }
    check_nvrtc(nvrtc().create(&program_, source.c_str(), "kernel.cu",
                               static_cast<int>(names.size()), texts.data(), names.data()),
                "start");
  }
  ~Program() { nvrtc().destroy(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  int compile(std::string_view arch) {
    const std::vector<std::string> options = options_for(arch);
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return nvrtc().compile(program_, static_cast<int>(pointers.size()), pointers.data());
  }
  std::string cubin() const {
    return read_text([&](size_t* size) { return nvrtc().cubin_size(program_, size); },
                     [&](char* to) { return nvrtc().cubin(program_, to); }, "give machine code");
  }
  std::string log() const {
    std::string text =
        read_text([&](size_t* size) { return nvrtc().log_size(program_, size); },
                  [&](char* to) { return nvrtc().log(program_, to); }, "give its report");
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
  }

 private:
  NvrtcProgram program_ = nullptr;
};

}  // namespace

std::string key_of(const KernelInputs& inputs) {
  std::string key;
  const auto add = [&](std::string_view part) {
    key += fmt::format("{}\n{}\n", part.size(), part);
  };
  add(inputs.compiler);
  add(fmt::format("{} options", inputs.options.size()));
  for (const std::string& option : inputs.options) add(option);
  add(inputs.source);
  for (const EmbeddedText& header : inputs.headers) {
    add(header.name);
    add(header.text);
  }
  return key;
}

int spilled_bytes(std::string_view log) {
  static const std::regex pattern("([0-9]+) bytes spill (?:stores|loads)");
  const std::string text(log);
  int total = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    total += std::stoi((*it)[1].str());
  }
  return total;
}

int most_registers(std::string_view log) {
  static const std::regex pattern("Used ([0-9]+) registers");
  const std::string text(log);
  int most = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    most = std::max(most, std::stoi((*it)[1].str()));
  }
  return most;
}

namespace {

std::string key_for(std::string_view source, std::string_view arch) {
  return key_of(
      {compiler_version() + " " + compiler_build(), options_for(arch), source, device_sources()});
}

std::string log_key_of(const std::string& key) { return key + "\n// resource report"; }

}  // namespace

bool Compiler::is_kept(std::string_view source, std::string_view arch) const {
  const std::string key = key_for(source, arch);
  return cache_.find(key).has_value() && cache_.find(log_key_of(key)).has_value();
}

CompiledKernel Compiler::compile(std::string_view source, std::string_view arch) const {
  const auto start = std::chrono::steady_clock::now();
  CompiledKernel kernel;
  const std::string key = key_for(source, arch), log_key = log_key_of(key);
  auto found = cache_.find(key), log = cache_.find(log_key);
  if (found && log) {
    kernel.cubin = std::move(*found);
    kernel.log = std::move(*log);
    kernel.cached = kernel.kept = true;
  } else {
    Program program{std::string(source)};
    const int result = program.compile(arch);
    kernel.log = program.log();
    if (kernel.log.empty()) check_nvrtc(result, "compile a kernel");
    if (result != 0) {
      throw CompileError(
          fmt::format("internal error: a kernel does not compile for {}:\n{} ({}:{})", arch,
                      kernel.log, __FILE__, __LINE__),
          kernel.log);
    }
    kernel.cubin = program.cubin();
    kernel.kept = cache_.put(key, kernel.cubin) && cache_.put(log_key, kernel.log);
  }
  kernel.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return kernel;
}

}  // namespace stretto::cuda
