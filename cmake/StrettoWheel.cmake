# What `pip install .` takes from CMake: libstretto.so and the command, beside the package's Python files. With
# STRETTO_WHEEL_FROM they are those of a build that there is already.
if(STRETTO_WHEEL_FROM)
  foreach(file src/c/libstretto.so src/cli/stretto)
    if(NOT EXISTS ${STRETTO_WHEEL_FROM}/${file})
      message(FATAL_ERROR "STRETTO_WHEEL_FROM names ${STRETTO_WHEEL_FROM}, where there is no ${file}; "
        "it must be a folder that `cmake --build` has filled")
    endif()
  endforeach()
  file(REAL_PATH ${STRETTO_WHEEL_FROM}/src/c/libstretto.so library)
  install(PROGRAMS ${library} DESTINATION stretto RENAME libstretto.so COMPONENT python)
  install(PROGRAMS ${STRETTO_WHEEL_FROM}/src/cli/stretto DESTINATION stretto/bin COMPONENT python)
  add_custom_target(stretto_c)
  add_custom_target(stretto)
else()
  # A wheel holds no links: its library has one name.
  set_target_properties(stretto_c PROPERTIES VERSION "" SOVERSION "")
  install(TARGETS stretto_c LIBRARY DESTINATION stretto COMPONENT python)
  install(TARGETS stretto RUNTIME DESTINATION stretto/bin COMPONENT python)
endif()
