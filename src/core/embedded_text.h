// Files carried inside the binary, so that it needs no source tree where it runs.
#pragma once

#include <span>

namespace stretto {

struct EmbeddedText {
  const char* name;  // relative to the folder that was embedded
  const char* text;
};

// The device headers, as #include names them ("stretto/device/types.h"), for run-time compilation.
std::span<const EmbeddedText> device_sources();
// What these need besides, to be compiled for the emulator of the device language.
std::span<const EmbeddedText> emulator_headers();
// The shipped operators ("mlp.graph").
std::span<const EmbeddedText> shipped_operators();
// The shipped machine files ("h200x8.json").
std::span<const EmbeddedText> shipped_machines();
// The shipped tuning files ("h200x8.json").
std::span<const EmbeddedText> shipped_tunings();

}  // namespace stretto
