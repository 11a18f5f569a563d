# stretto_room(NAME DEPS ROOM...): the static library stretto_NAME from src/NAME/*.cpp.
# stretto_tests(NAME [LATE] [LIBS ...]): the GoogleTest executable test_NAME from tests/NAME/*.cpp.
#   It links the room NAME and all rooms that plans pass through. LATE: it needs so much that no other test's
#   headers should wait for it.
# stretto_embed(NAME FUNCTION ROOT FILE...): stretto_NAME carries the files, see core/embedded_text.h.
# A folder without sources makes no target, so rooms can be added one at a time.

set_property(GLOBAL PROPERTY STRETTO_ROOM_LIBS "")

function(stretto_room name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_library(stretto_${name} STATIC ${sources})
  target_link_libraries(stretto_${name} PUBLIC stretto_flags stretto_formatting)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(stretto_${name} PUBLIC $<TARGET_NAME_IF_EXISTS:stretto_${dep}>)
  endforeach()
  stretto_precompile(room stretto_${name} ${stretto_common_headers})
  set_property(GLOBAL APPEND PROPERTY STRETTO_ROOM_LIBS stretto_${name})
endfunction()

function(stretto_embed name function root)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  set(embed ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake)
  add_custom_command(OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${source} -DFUNCTION=${function} -DROOT=${root}
            "-DFILES=${ARGN}" -P ${embed}
    DEPENDS ${ARGN} ${embed} VERBATIM)
  target_sources(stretto_${name} PRIVATE ${source})
endfunction()

# stretto_link_rooms(TARGET [ROOM...]): links the rooms named, or every room there is.
function(stretto_link_rooms target)
  set(libs)
  foreach(room IN LISTS ARGN)
    list(APPEND libs stretto_${room})
  endforeach()
  if(NOT libs)
    get_property(libs GLOBAL PROPERTY STRETTO_ROOM_LIBS)
    list(REVERSE libs)  # the static linker wants users before what they use
  endif()
  target_link_libraries(${target} PRIVATE stretto_flags ${libs} stretto_formatting)
endfunction()

# The rooms that plans pass through, which bring what they stand on (`launch` and `gpu`); the rooms of GPUs and `fibre`
# stand beside them, and what uses them says so.
set(stretto_plan_rooms report trace sim emu check lower sync order plan schedule machine op tasks core)
set(stretto_gpu_rooms serve measure run streams calls fabric tables launch lang gpu)

function(stretto_tests name)
  cmake_parse_arguments(ARG "LATE" "" "LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  if(NOT sources)
    return()
  endif()
  find_package(GTest 1.12 REQUIRED)
  include(GoogleTest)
  add_executable(test_${name} ${sources})
  if(TARGET stretto_${name})
    target_link_libraries(test_${name} PRIVATE stretto_${name})
  endif()
  stretto_link_rooms(test_${name} ${stretto_plan_rooms})
  target_link_libraries(test_${name} PRIVATE GTest::gmock GTest::gtest_main ${ARG_LIBS})
  target_compile_options(test_${name} PRIVATE ${STRETTO_EDGE_OPTIONS})
  if(NOT ARG_LATE)
    stretto_precompile(test test_${name} ${stretto_common_headers} <gmock/gmock.h>)
  endif()
  target_include_directories(test_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  # A property of sources: as one of the target it would make each precompiled header another.
  set_property(SOURCE ${sources} APPEND PROPERTY COMPILE_DEFINITIONS
    STRETTO_TEST_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
  stretto_join(test_${name} ${sources})
  gtest_discover_tests(test_${name} DISCOVERY_MODE PRE_TEST
    TEST_PREFIX ${name}. PROPERTIES LABELS ${name} TIMEOUT 300)
endfunction()
