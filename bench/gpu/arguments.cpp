#include "arguments.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "gpu/shared_gpus.h"
#include "stretto/error.h"

namespace stretto::bench {

Arguments::Arguments(const std::string& about) : app_(std::make_unique<CLI::App>(about)) {}

Arguments::~Arguments() = default;

void Arguments::add(const std::string& name, int& value, const std::string& meaning) {
  app_->add_option(name, value, meaning);
}

void Arguments::add(const std::string& name, int64_t& value, const std::string& meaning) {
  app_->add_option(name, value, meaning);
}

void Arguments::add(const std::string& name, size_t& value, const std::string& meaning) {
  app_->add_option(name, value, meaning);
}

void Arguments::add(const std::string& name, std::string& value, const std::string& meaning) {
  app_->add_option(name, value, meaning);
}

void Arguments::add(const std::string& name, bool& value, const std::string& meaning) {
  app_->add_flag(name, value, meaning);
}

void Arguments::add(const std::string& name, std::vector<int>& values, const std::string& meaning) {
  app_->add_option(name, values, meaning)->delimiter(',');
}

void Arguments::add(const std::string& name, std::vector<std::string>& values,
                    const std::string& meaning) {
  app_->add_option(name, values, meaning)->delimiter(',');
}

std::optional<int> Arguments::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? 0 : 2;
  }
  return std::nullopt;
}

int run_program(const char* name, const std::function<int()>& work, bool only_times) {
  try {
    if (only_times) cuda::require_own_gpus_for_times();
    return work();
  } catch (const UsageError& error) {
    std::cerr << name << ": " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << '\n';
    return 3;
  }
}

}  // namespace stretto::bench
