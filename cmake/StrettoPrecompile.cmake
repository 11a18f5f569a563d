# stretto_precompile(KIND TARGET HEADER...): with STRETTO_PRECOMPILE, TARGET reads HEADERs, which
# belong to libraries, from one precompiled file. The first target of a KIND makes it for all others;
# they must be compiled with the same options.
#
# What these headers declare is then known to every source without an #include. Presets other than
# `test` build without, and say what is missing.

function(stretto_precompile kind target)
  if(NOT STRETTO_PRECOMPILE)
    return()
  endif()
  get_property(maker GLOBAL PROPERTY STRETTO_PRECOMPILED_${kind})
  if(maker)
    target_precompile_headers(${target} REUSE_FROM ${maker})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
    set_property(GLOBAL PROPERTY STRETTO_PRECOMPILED_${kind} ${target})
  endif()
endfunction()

set(stretto_common_headers
  <algorithm> <array> <cstdint> <cstring> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <tuple> <vector> <fmt/format.h>)
