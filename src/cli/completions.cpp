#include "cli/completions.h"

#include <fmt/format.h>

#include <map>

#include "cli/completed_words.h"
#include "core/text.h"
#include "stretto/error.h"

namespace stretto::cli {
namespace {

std::string names_of(const CompletedVerb& verb) {
  std::string names;
  for (const CompletedOption& option : verb.options) names += join(option.names, " ") + " ";
  return names;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// In single quotes of a POSIX shell and of zsh.
std::string in_quotes(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

std::string bash_reply(const Values& values) {
  const std::string files = values.is_file ? "-f " : "";
  return fmt::format("_stretto_reply {} {}\"{}\" ;;\n", values.is_list ? "list" : "word", files,
                     join(values.words, " "));
}

std::string bash_script(const std::vector<CompletedVerb>& verbs) {
  std::string names, of_options, of_verbs;
  std::map<std::string, std::string> values;  // by the option's names: they mean one thing
  for (const CompletedVerb& verb : verbs) {
    names += verb.name + " ";
    of_verbs += fmt::format("        {}) options={} words={} files={} ;;\n", verb.name,
                            in_quotes(names_of(verb)), in_quotes(join(verb.words.words, " ")),
                            in_quotes(verb.words.is_file ? "-f" : ""));
    for (const CompletedOption& option : verb.options) {
      if (option.has_value) values[join(option.names, "|")] = bash_reply(option.values);
    }
  }
  for (const auto& [option, reply] : values) of_options += "    " + option + ") " + reply;
  std::string script = R"~(# bash completion for stretto; eval "$(stretto completions bash)"
_stretto_reply() {  # list|word [-f] WORDS
  local kind=$1 files= head= word=$current
  shift
  if [ "$1" = -f ]; then files=-f; shift; fi
  if [ "$kind" = list ] && [[ $word == *,* ]]; then head=${word%,*},; word=${word##*,}; fi
  COMPREPLY=($(compgen $files -P "$head" -W "$1" -- "$word"))
}
_stretto() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  local options= words= files=
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    _stretto_reply word @VERBS@
    return
  fi
  case $before in
@VALUES@    *)
      case ${COMP_WORDS[1]} in
@WORDS@      esac
      if [[ $current == -* ]]; then _stretto_reply word "$options"
      else _stretto_reply word $files "$words"; fi ;;
  esac
}
complete -F _stretto stretto
)~";
  script = replaced(std::move(script), "@VERBS@", in_quotes(names));
  script = replaced(std::move(script), "@VALUES@", of_options);
  return replaced(std::move(script), "@WORDS@", of_verbs);
}

// What _arguments reads as marks of its own.
std::string zsh_text(const std::string& text) {
  std::string out = text;
  for (const char* mark : {"\\", "[", "]", ":"})
    out = replaced(out, mark, std::string("\\") + mark);
  return out;
}

std::string zsh_values(const Values& values) {
  std::string words;
  for (const std::string& word : values.words) {
    words += (words.empty() ? "" : " ") + replaced(word, ":", "\\:");
  }
  if (values.is_list) return "_values -s , name " + words;
  if (values.words.empty()) return values.is_file ? "_files" : " ";
  return values.is_file ? "_alternative \"words:word:(" + words + ")\" \"files:file:_files\""
                        : "(" + words + ")";
}

std::string zsh_script(const std::vector<CompletedVerb>& verbs) {
  std::string list, cases;
  for (const CompletedVerb& verb : verbs) {
    list += fmt::format("    {}\n", in_quotes(verb.name + ":" + verb.meaning));
    cases += fmt::format("    {})\n      _arguments \\\n", verb.name);
    for (const CompletedOption& option : verb.options) {
      for (const std::string& name : option.names) {
        const std::string value =
            option.has_value ? ":value:" + zsh_values(option.values) : std::string();
        cases +=
            fmt::format("        {} \\\n",
                        in_quotes(fmt::format("{}[{}]{}", name, zsh_text(option.meaning), value)));
      }
    }
    cases += fmt::format("        {} ;;\n", in_quotes("*:word:" + zsh_values(verb.words)));
  }
  std::string script = R"~(#compdef stretto
# zsh completion for stretto; save as _stretto in a folder of $fpath, or source it after compinit
_stretto() {
  local -a verbs=(
@VERBS@  )
  if (( CURRENT == 2 )); then
    _describe verb verbs
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
@CASES@  esac
}
compdef _stretto stretto
)~";
  script = replaced(std::move(script), "@VERBS@", list);
  return replaced(std::move(script), "@CASES@", cases);
}

std::string fish_quotes(const std::string& text) {
  return "'" + replaced(replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_script(const std::vector<CompletedVerb>& verbs) {
  std::string out =
      "# fish completion for stretto; save as stretto.fish in ~/.config/fish/completions\n"
      "complete -c stretto -f\n";
  for (const CompletedVerb& verb : verbs) {
    out += fmt::format("complete -c stretto -n __fish_use_subcommand -a {} -d {}\n", verb.name,
                       fish_quotes(verb.meaning));
    const std::string behind =
        fmt::format("complete -c stretto -n '__fish_seen_subcommand_from {}'", verb.name);
    const auto words = [](const Values& values) {
      return (values.is_file ? " -F" : " -f") +
             (values.words.empty() ? "" : " -a " + fish_quotes(join(values.words, " ")));
    };
    if (!verb.words.words.empty()) out += behind + words(verb.words) + "\n";
    for (const CompletedOption& option : verb.options) {
      out += behind;
      for (const std::string& name : option.names) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (option.has_value) out += " -r" + words(option.values);
      out += " -d " + fish_quotes(option.meaning) + "\n";
    }
  }
  return out;
}

}  // namespace

std::span<const std::string_view> known_shells() {
  static constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};
  return kShells;
}

std::string completions_for(std::string_view shell) {
  const std::vector<CompletedVerb> verbs = completed_verbs();
  if (shell == "bash") return bash_script(verbs);
  if (shell == "zsh") return zsh_script(verbs);
  if (shell == "fish") return fish_script(verbs);
  throw UsageError(unknown_word("shell", shell, known_shells()));
}

}  // namespace stretto::cli
