# `cmake --install`: the headers, the library, the command, and the two ways to find them (CMake and pkg-config).
include(CMakePackageConfigHelpers)

# Looked at before anything is copied: half an installation is worse than none.
set(installed lockstep)
foreach(target lockstep_cli lockstep_shaderc ${lockstep_mpi_libraries})
  if(TARGET ${target})
    list(APPEND installed ${target})
  endif()
endforeach()
foreach(target IN LISTS installed)
  install(CODE "
    if(NOT EXISTS \"$<TARGET_FILE:${target}>\")
      message(FATAL_ERROR \"$<TARGET_FILE_NAME:${target}> is not built; build it first: cmake --build ${CMAKE_BINARY_DIR}\")
    endif()" ALL_COMPONENTS)
endforeach()

# Three components, and packages: the library, what programs are built with, the command; and one for each MPI.
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
if(TARGET lockstep_cli)
  install(TARGETS lockstep_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/assets/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep
    COMPONENT command)
endif()
install(TARGETS lockstep EXPORT lockstep
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
if(TARGET lockstep_cli_library)
  install(TARGETS lockstep_cli_library EXPORT lockstep
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
endif()
if(TARGET lockstep_shaderc)
  install(TARGETS lockstep_shaderc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
endif()
# A component each: nobody needs an MPI who does not use it.
foreach(target IN LISTS lockstep_mpi_libraries)
  string(REPLACE "lockstep_mpi_" "" implementation ${target})
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${implementation})
endforeach()
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/include/lockstep ${CMAKE_CURRENT_BINARY_DIR}/include/lockstep
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstep-targets.cmake DESTINATION ${config_dir}
  COMPONENT development)

# A shared library keeps its dependencies to itself; a static one hands them on.
get_target_property(library_type lockstep TYPE)
if(library_type STREQUAL "STATIC_LIBRARY")
  set(handed_on_packages ${lockstep_private_packages})
  list(JOIN lockstep_private_pkgconfig " " handed_on_pkgconfig)
  set(handed_on_libs "-pthread -ldl")
endif()
# Named as find_package(lockstep CONFIG) looks for it.
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/lockstep-config.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/lockstep-config.cmake INSTALL_DESTINATION ${config_dir})
# Before 1.0 a minor release may change the interface.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/lockstep-config-version.cmake
  COMPATIBILITY SameMinorVersion)
# Relative, so that `cmake --install --prefix` and a moved tree work.
file(RELATIVE_PATH prefix_from_pkgconfig
  ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/lockstep.pc.in ${CMAKE_CURRENT_BINARY_DIR}/lockstep.pc @ONLY)
install(FILES
  ${CMAKE_CURRENT_BINARY_DIR}/lockstep-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/lockstep-config-version.cmake
  DESTINATION ${config_dir} COMPONENT development)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)

if(PROJECT_IS_TOP_LEVEL)
  include(Packages)
endif()
