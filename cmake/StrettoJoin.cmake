# stretto_join(TARGET SOURCE...): with STRETTO_JOIN, a number, as many sources of TARGET are compiled as one: what
# their headers and templates take is taken once. Only those whose every name stands in one unnamed namespace, which
# ends the file, are joined: in a namespace of its own (join_sources.cmake) none of them sees another's.
#
# A source may then use what one before it has included. Presets other than `test` build without, and say so.

set(stretto_opens_unnamed "\nnamespace {\n")
set(stretto_closes_unnamed "\n}  // namespace\n")

# Whether a text has one unnamed namespace, and behind it closes another at most.
function(stretto_is_joinable text result)
  string(FIND "${text}" "${stretto_opens_unnamed}" first)
  string(FIND "${text}" "${stretto_opens_unnamed}" last REVERSE)
  string(REGEX MATCH "\n}  // namespace\n\n?}  // namespace [a-z_:]+\n$" ending "${text}")
  if(first GREATER -1 AND first EQUAL last AND NOT ending STREQUAL "")
    set(${result} TRUE PARENT_SCOPE)
  else()
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

function(stretto_join target)
  if(NOT STRETTO_JOIN)
    return()
  endif()
  set(joinable)
  foreach(source IN LISTS ARGN)
    file(READ ${source} text)
    stretto_is_joinable("${text}" joins)
    if(joins)
      list(APPEND joinable ${source})
    endif()
  endforeach()
  list(LENGTH joinable left)
  set(script ${PROJECT_SOURCE_DIR}/cmake/join_sources.cmake)
  set(part 0)
  while(left GREATER 1)
    list(SUBLIST joinable 0 ${STRETTO_JOIN} files)
    list(REMOVE_ITEM joinable ${files})
    list(LENGTH joinable left)
    set(joined ${CMAKE_CURRENT_BINARY_DIR}/joined_${part}.cpp)
    add_custom_command(OUTPUT ${joined} COMMAND ${CMAKE_COMMAND} -DOUTPUT=${joined} "-DFILES=${files}" -P ${script}
      DEPENDS ${files} ${script} ${PROJECT_SOURCE_DIR}/cmake/StrettoJoin.cmake VERBATIM)
    set_source_files_properties(${files} PROPERTIES HEADER_FILE_ONLY TRUE)
    target_sources(${target} PRIVATE ${joined})
    set_property(SOURCE ${joined} APPEND PROPERTY COMPILE_DEFINITIONS STRETTO_TEST_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
    math(EXPR part "${part} + 1")
  endwhile()
  target_compile_options(${target} PRIVATE "SHELL:-iquote ${CMAKE_CURRENT_SOURCE_DIR}")
endfunction()
