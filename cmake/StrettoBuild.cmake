# Compiler settings and libraries that every target shares.

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(STRETTO_CCACHE ccache)
  if(STRETTO_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${STRETTO_CCACHE})
    if(STRETTO_PRECOMPILE)  # what ccache asks for, else it keeps nothing
      list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime)
      add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
    endif()
  endif()
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(HWY REQUIRED)
find_package(ZLIB REQUIRED)
if(STRETTO_COMMAND)
  find_package(CLI11 2.1 REQUIRED)
endif()
# Linked in where it can be: it is one function.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 QUIET COMPONENTS context)
if(NOT TARGET Boost::context)
  set(Boost_USE_STATIC_LIBS OFF)
  find_package(Boost 1.74 REQUIRED COMPONENTS context)
endif()

# The version stands in CMakeLists.txt alone.
configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${PROJECT_BINARY_DIR}/include/stretto/version.h @ONLY)
add_library(stretto_version INTERFACE)
target_include_directories(stretto_version INTERFACE ${PROJECT_BINARY_DIR}/include)

add_library(stretto_flags INTERFACE)
target_include_directories(stretto_flags INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_options(stretto_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow)
if(STRETTO_WERROR)
  target_compile_options(stretto_flags INTERFACE -Werror)
endif()
if(STRETTO_SANITIZE)
  target_compile_options(stretto_flags INTERFACE
    -fsanitize=${STRETTO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
    # GCC no longer sees through instrumented code, and takes the standard library's for unset.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(stretto_flags INTERFACE -fsanitize=${STRETTO_SANITIZE})
endif()
if(STRETTO_FUZZ)
  target_compile_options(stretto_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
