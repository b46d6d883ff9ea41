# A row that is only half added to a table does not compile where somebody has to decide: SOURCE does not with the tables
# of the folder ROWS in front, with an error that names ROW. Without ROWS it compiles.
#
#   cmake -D COMPILER=... -D "OPTIONS=-I...;..." -D SOURCE=src/... [-D ROWS=dtype -D ROW=f8e3m4] -P rows_test.cmake
cmake_path(SET root NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../../..)
set(with_row)
if(ROWS)
  set(with_row -I${CMAKE_CURRENT_LIST_DIR}/${ROWS})
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/${ROWS}/row.h)
    list(APPEND with_row -include ${CMAKE_CURRENT_LIST_DIR}/${ROWS}/row.h)
  endif()
endif()

# For one instruction set: its code is that of the others.
execute_process(
  COMMAND ${COMPILER} -std=c++20 -fsyntax-only -DHWY_COMPILE_ONLY_STATIC -Wall -Werror ${with_row} ${OPTIONS} -x c++ ${root}/${SOURCE}
  RESULT_VARIABLE result ERROR_VARIABLE errors OUTPUT_QUIET)

if(NOT ROWS)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${SOURCE} should compile:\n${errors}")
  endif()
elseif(result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles with the row ${ROW}, of which it knows nothing")
elseif(NOT errors MATCHES "${ROW}")
  message(FATAL_ERROR "${SOURCE} does not compile, but not for the row ${ROW}:\n${errors}")
endif()
