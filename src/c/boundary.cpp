#include "c/boundary.h"

#include <fmt/format.h>

#include <array>
#include <new>
#include <system_error>

#include "core/text.h"
#include "op/names.h"
#include "stretto/c.h"
#include "stretto/error.h"

namespace stretto::c {
namespace {

thread_local std::string last_error;
thread_local std::array<std::string, 3> kept;

int fail(int code, std::string what) {
  for (char& c : what) {  // one line, whatever it quotes
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  last_error = std::move(what);
  return code;
}

}  // namespace

int guarded(const std::function<void()>& work) {
  try {
    work();
    return STRETTO_GOOD;
  } catch (const UsageError& error) {
    return fail(STRETTO_BAD_USAGE, error.what());
  } catch (const SystemError& error) {
    return fail(STRETTO_SYSTEM_FAULT, error.what());
  } catch (const std::bad_alloc&) {
    return fail(STRETTO_SYSTEM_FAULT, "out of memory; smaller sizes or fewer ranks need less");
  } catch (const std::system_error& error) {
    return fail(STRETTO_SYSTEM_FAULT,
                fmt::format("{}: the system gives no more threads or memory", error.what()));
  } catch (const std::exception& error) {
    return fail(STRETTO_SYSTEM_FAULT,
                fmt::format("{}; this is a bug of Stretto, please report it", error.what()));
  }
}

const char* keep(int slot, std::string text) {
  std::string& place = kept.at(static_cast<size_t>(slot));
  place = std::move(text);
  return place.c_str();
}

std::string_view text_of(const char* argument, std::string_view name) {
  return &require(argument, name);
}

DType dtype_of(const char* dtype) {
  const std::string_view text = text_of(dtype, "dtype");
  const auto known = dtype_from(text);
  if (!known) throw UsageError(unknown_dtype(text));
  return *known;
}

}  // namespace stretto::c

const char* stretto_last_error() { return stretto::c::last_error.c_str(); }
