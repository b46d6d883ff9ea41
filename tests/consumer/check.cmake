# Uses Lockstep as a stranger would, in the given WAY, and expects the program in this folder to print 15:
#   cmake        installs, then find_package in a project of its own
#   pkg-config   installs, then one compiler command
#   subproject   add_subdirectory; configures only, since building would build the library once more
set(work ${BUILD_DIR}/consumer-${WAY})
set(prefix ${work}/prefix)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(expect_fifteen)
  execute_process(COMMAND ${ARGV} OUTPUT_VARIABLE output COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
  if(NOT output STREQUAL "15\n")
    message(FATAL_ERROR "Expected 15, got: ${output}")
  endif()
endfunction()

if(WAY STREQUAL "subproject")
  file(WRITE ${work}/CMakeLists.txt "
    cmake_minimum_required(VERSION 3.25)
    project(outer LANGUAGES CXX)
    add_subdirectory(${SOURCE_DIR} lockstep)
    add_executable(consumer ${SOURCE_DIR}/tests/consumer/main.cpp)
    target_link_libraries(consumer PRIVATE lockstep::lockstep)
    foreach(target lockstep_test_support lockstep_cli)
      if(TARGET \${target})
        message(FATAL_ERROR \"\${target} has no place in a subproject\")
      endif()
    endforeach()
  ")
  run(${CMAKE_COMMAND} -S ${work} -B ${work}/build -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${CXX})
  return()
endif()

run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})
if(WAY STREQUAL "cmake")
  run(${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/consumer -B ${work}/build -G ${GENERATOR}
    -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_PREFIX_PATH=${prefix})
  run(${CMAKE_COMMAND} --build ${work}/build)
  expect_fifteen(${work}/build/consumer)
else()
  file(GLOB_RECURSE pc ${prefix}/lockstep.pc)
  cmake_path(GET pc PARENT_PATH pc_dir)
  cmake_path(GET pc_dir PARENT_PATH lib_dir)
  set(ENV{PKG_CONFIG_PATH} ${pc_dir})
  set(static "")
  if(STATIC)
    set(static --static)
  endif()
  execute_process(COMMAND pkg-config --cflags --libs ${static} lockstep
    OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${CXX} -std=c++20 ${SOURCE_DIR}/tests/consumer/main.cpp -o ${work}/consumer ${flags} -Wl,-rpath,${lib_dir})
  expect_fifteen(${work}/consumer)
endif()
