// The arguments of a benchmark and its exit status. Hides CLI11, whose header takes longer to
// compile than a benchmark.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace stretto::bench {

class Arguments {
 public:
  explicit Arguments(const std::string& about);
  ~Arguments();

  // Lists are separated by commas; a bool is a flag.
  void add(const std::string& name, int& value, const std::string& meaning);
  void add(const std::string& name, int64_t& value, const std::string& meaning);
  void add(const std::string& name, size_t& value, const std::string& meaning);
  void add(const std::string& name, std::string& value, const std::string& meaning);
  void add(const std::string& name, bool& value, const std::string& meaning);
  void add(const std::string& name, std::vector<int>& values, const std::string& meaning);
  void add(const std::string& name, std::vector<std::string>& values, const std::string& meaning);

  // The exit status when the line was wrong (2) or asked for help; it has been answered then.
  std::optional<int> parse(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

// What `work` returns; what it throws is one line on standard error: 2 for bad usage, 3 for faults
// of the system. What only times is refused where ranks share GPUs.
int run_program(const char* name, const std::function<int()>& work, bool only_times = true);

}  // namespace stretto::bench
