#include "arguments.h"

#include <CLI/CLI.hpp>

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
    return app_->exit(error);
  }
  return std::nullopt;
}

}  // namespace stretto::bench
