# stretto::stretto, the C++ interface: all rooms in one archive, whose users get headers and C++20, and none of
# the options that Stretto itself is compiled with. stretto::c is libstretto.so.
get_property(archived GLOBAL PROPERTY STRETTO_ROOM_LIBS)
add_library(stretto_cpp STATIC)
foreach(room IN LISTS archived)
  target_sources(stretto_cpp PRIVATE $<TARGET_OBJECTS:${room}>)
endforeach()
set_target_properties(stretto_cpp PROPERTIES LINKER_LANGUAGE CXX EXPORT_NAME stretto)
set_target_properties(stretto_c PROPERTIES EXPORT_NAME c)
foreach(target stretto_cpp stretto_c)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>)
endforeach()
target_compile_features(stretto_cpp INTERFACE cxx_std_20)
# {fmt} is linked as its users link it: a program that has it, too, has it once.
target_link_libraries(stretto_cpp INTERFACE $<LINK_ONLY:fmt::fmt> $<LINK_ONLY:hwy::hwy>
  $<LINK_ONLY:ZLIB::ZLIB> $<LINK_ONLY:Boost::context> $<LINK_ONLY:Threads::Threads> ${CMAKE_DL_LIBS})
if(STRETTO_SANITIZE)
  target_link_options(stretto_cpp INTERFACE -fsanitize=${STRETTO_SANITIZE})
endif()
add_library(stretto::stretto ALIAS stretto_cpp)
add_library(stretto::c ALIAS stretto_c)
