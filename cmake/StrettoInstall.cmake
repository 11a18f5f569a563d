# What `cmake --install` installs: headers, libstretto.so for C and other languages, all rooms in one archive
# for C++, the command, and how CMake and pkg-config find them.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(TARGETS stretto_cpp stretto_c EXPORT strettoTargets
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET stretto)
  install(TARGETS stretto)
endif()
install(DIRECTORY include/stretto DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(FILES ${PROJECT_BINARY_DIR}/include/stretto/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stretto)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/stretto)
install(EXPORT strettoTargets NAMESPACE stretto:: DESTINATION ${package})
configure_package_config_file(cmake/stretto-config.cmake.in
  ${PROJECT_BINARY_DIR}/package/stretto-config.cmake INSTALL_DESTINATION ${package})
# Before 1.0 a minor version may break what the one before it had.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/stretto-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/stretto-config.cmake
  ${PROJECT_BINARY_DIR}/package/stretto-config-version.cmake DESTINATION ${package})

# The installed tree may be moved: pkg-config counts from where its files lie.
set(pkgconfig ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH to_prefix ${pkgconfig} ${CMAKE_INSTALL_PREFIX})
file(RELATIVE_PATH libdir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH includedir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
foreach(name stretto stretto-cpp)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/package/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
