# Habits that cannot work: each must not compile, and what the compiler prints must say what to write instead.
#   cmake -D CXX=<compiler> -D SOURCE_DIR=<root> -D BUILD_DIR=<build> -P check.cmake
set(cases
  "if (a == b) {}"                       "write equal\\(a, b\\)"
  "while (a) {}"                         "write equal\\(a, b\\)"
)
function(compile body output result)
  set(source ${BUILD_DIR}/refused.cpp)
  file(WRITE ${source} "#include <lockstep/lockstep.h>
namespace ls = lockstep;
void habit(ls::Tensor a, ls::Tensor b) { ${body} }
")
  execute_process(
    COMMAND ${CXX} -std=c++20 -fsyntax-only -I${SOURCE_DIR}/include -I${BUILD_DIR}/include ${source}
    OUTPUT_VARIABLE printed ERROR_VARIABLE printed RESULT_VARIABLE code)
  set(${output} "${printed}" PARENT_SCOPE)
  set(${result} ${code} PARENT_SCOPE)
endfunction()

# What is not refused compiles, so that a failure below is the habit's.
compile("ls::Tensor c = a == b;" output code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "the harmless case does not compile:\n${output}")
endif()
list(LENGTH cases count)
math(EXPR last "${count} / 2 - 1")
foreach(i RANGE ${last})
  math(EXPR first "2 * ${i}")
  math(EXPR second "2 * ${i} + 1")
  list(GET cases ${first} body)
  list(GET cases ${second} advice)
  compile("${body}" output code)
  if(code EQUAL 0)
    message(FATAL_ERROR "this compiles: ${body}")
  endif()
  if(NOT output MATCHES "${advice}")
    message(FATAL_ERROR "${body}\ndoes not say \"${advice}\", but:\n${output}")
  endif()
endforeach()
