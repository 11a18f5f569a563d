// The text of --help: as wide as the terminal, verbs and options by group.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace stretto::cli {

// Of the command, whose verbs are `app`'s subcommands, or of one verb.
std::string help_text(const CLI::App& app);

}  // namespace stretto::cli
