# How every target of this project is compiled. The arithmetic flags are part of the numerics specification
# (docs/numerics.md): without them two compilers may give two answers.
#   lockstep_compile_options(target)   C++20, arithmetic, warnings, hidden symbols, sanitizers
#   lockstep_sanitize(target)          the sanitizers alone, for a target that only links
#   lockstep_group_of(file result), lockstep_group_options(group result)   what is compiled together, and how
#   lockstep_leaf_options(result)      of sources that neither throw nor call what throws
#   lockstep_link_options(target)      what makes a shared library smaller
include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)

# No contraction into fma, which would round once where the specification rounds twice. The other two change no value;
# they free the compiler from errno and from floating-point traps, which nobody reads.
set(lockstep_arithmetic_flags -ffp-contract=off -fno-math-errno -fno-trapping-math)

# Highway's NEON code inlines only into functions that may use the instructions which its NEON target includes.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  list(APPEND lockstep_arithmetic_flags -march=armv8-a+crypto)
endif()

check_cxx_source_compiles("
#include <cfloat>
#if FLT_EVAL_METHOD != 0
#error excess precision, e.g. x87
#endif
#if defined(__FAST_MATH__) || __FINITE_MATH_ONLY__
#error value-changing optimisations
#endif
int main() {}
" LOCKSTEP_ARITHMETIC_IS_IEEE)
if(NOT LOCKSTEP_ARITHMETIC_IS_IEEE)
  message(FATAL_ERROR
    "Lockstep needs float and double evaluated as declared (FLT_EVAL_METHOD == 0) and no -ffast-math: "
    "with excess precision or relaxed arithmetic no two machines agree. CMAKE_CXX_FLAGS is \"${CMAKE_CXX_FLAGS}\"; "
    "on 32-bit x86 use -msse2 -mfpmath=sse.")
endif()

# Designated initialisers name what differs from the default; the members that they leave out are not forgotten.
set(lockstep_warning_flags
  -Wall -Wextra -Wconversion -Wno-sign-conversion -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi
  -Wno-missing-field-initializers)
# What an optimiser found out or failed to do differs between releases and levels, and the flow analyses report sound code
# of the standard library: worth reading, not worth failing a build on a compiler that we have never seen. Sanitizers
# change the code so much that these are not even worth reading.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND lockstep_warning_flags -Wno-restrict)
  set(uncertain array-bounds free-nonheap-object maybe-uninitialized stringop-overflow stringop-overread)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    list(APPEND uncertain dangling-pointer dangling-reference)
  endif()
else()
  set(uncertain pass-failed)  # a loop that was not vectorised
endif()
foreach(warning IN LISTS uncertain)
  if(LOCKSTEP_SANITIZE)
    list(APPEND lockstep_warning_flags -Wno-${warning})
  elseif(LOCKSTEP_WERROR)
    list(APPEND lockstep_warning_flags -Wno-error=${warning})
  endif()
endforeach()

# A project that includes this one may have no build type. Its own code is then not optimised, as it asked; the library
# would be tens of times slower, and nobody would know why.
set(lockstep_optimisation "")
if(NOT CMAKE_CXX_FLAGS MATCHES "-O[0-9sgz]")
  set(lockstep_optimisation $<$<STREQUAL:$<CONFIG>,>:-O3> $<$<STREQUAL:$<CONFIG>,>:-DNDEBUG>)
endif()

# How the library is optimised in a release build. Most of it composes ops, reads descriptions, plans or writes kernels' texts:
# it is made small, which takes two fifths of -O3's code away. What loops over elements or is called for each of a text has
# -O2. CMake's -O3 stay the CPU's kernels and the core.
set(lockstep_fastest_groups "^(core/quick|backends/cpu/[a-z]+)$")
set(lockstep_quick_folders "^(kernels|backends/cpu)$")
set(lockstep_quick_sources
  "core/(checked|device|dtype|encoding|fp_state|hash|shape|utf8|view)"
  "data/(augment|digits|host_rows|picture|rand_augment)"
  "graph/(describe|execute|kept|node|plan_cache|plan_key|primitive)"
  "graph/(record|step|tape|tensor|tensor_part|window|work)"
  "graph/ops/(creation|elementwise|index_tensors|pointwise|shape|shape_index)"
  "io/(block_.*|image|jpeg|orientation|png|raw_tensor|resize|stored_type|wav)"
  "linalg/(singular_values|symmetric_eigen)"
  "models/language/sample"
  "text/(bpe|charsmap|normal_forms|pre_tokenizers|regex|sentence_piece|tokenizer|unicode|unigram|vocabulary)")
# What the CPU does around tiles and around loops over rows.
set(lockstep_steering_sources
  "backends/cpu/contraction/(.*_way|geometry|padded_copy)"
  "backends/cpu/row/(fetch|frame|indexed|put|row_program)")
# What the CPU does once for a kernel, not in each run.
set(lockstep_planning_sources
  "backends/cpu/contraction/(contraction|direct|images|in_place|lines|panels|plan|planner|side|thin|tiling)"
  "backends/cpu/row/(analysis|fuse|pattern|plan|planner|slots|space|steps)")
list(JOIN lockstep_quick_sources "|" lockstep_quick_sources)
list(JOIN lockstep_steering_sources "|" lockstep_steering_sources)
list(JOIN lockstep_planning_sources "|" lockstep_planning_sources)

# The folder of a source, to which `/quick` or `/planning` is added where it is compiled apart from the others of its folder.
function(lockstep_group_of file result)
  cmake_path(GET file PARENT_PATH folder)
  if(file MATCHES "^(${lockstep_quick_sources})\\.cpp$" OR file MATCHES "^(${lockstep_steering_sources})\\.cpp$")
    string(APPEND folder "/quick")
  elseif(file MATCHES "^(${lockstep_planning_sources})\\.cpp$")
    string(APPEND folder "/planning")
  endif()
  set(${result} ${folder} PARENT_SCOPE)
endfunction()

# GCC keeps values for later use, in registers that it then has to save, even where that makes code longer.
set(lockstep_small $<$<CONFIG:Release>:-Os>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
  set(lockstep_small $<$<CONFIG:Release>:-Oz> $<$<CONFIG:Release>:-fno-gcse> $<$<CONFIG:Release>:-fno-ivopts>
    $<$<CONFIG:Release>:-fno-tree-pre>)
endif()

function(lockstep_group_options group result)
  set(options "")
  if(LOCKSTEP_SANITIZE)
    if(group MATCHES "^(core|io|text)" AND LOCKSTEP_SANITIZE MATCHES "undefined")
      set(options -fsanitize=null,alignment,object-size,vptr)  # where the bytes of files become numbers: all checks
    endif()
    if(NOT group MATCHES "^(core|data|kernels|backends/(cpu|reference)|io|text)|/quick$"
        OR group MATCHES "^io/onnx/export" OR (LOCKSTEP_SANITIZE STREQUAL "thread" AND group MATCHES "^(data|io)"))
      list(APPEND options -O0)  # what computes little takes longer to optimise than to run
    elseif(group MATCHES "^(core/quick|backends/reference)$")
      list(APPEND options -O2)  # most of many tests is the reference: -O1 leaves calls for each element's address
    endif()
  elseif(group MATCHES "${lockstep_fastest_groups}")
    set(options "")
  elseif(group MATCHES "${lockstep_quick_folders}|/quick$")
    set(options $<$<CONFIG:Release>:-O2>)
  else()
    set(options ${lockstep_small})
  endif()
  set(${result} "${options}" PARENT_SCOPE)
endfunction()

# Loops that neither throw nor call what throws need no description of their frames.
function(lockstep_leaf_options result)
  set(${result} $<$<CONFIG:Release>:-fno-exceptions> $<$<CONFIG:Release>:-fno-asynchronous-unwind-tables>
    $<$<CONFIG:Release>:-fno-unwind-tables> PARENT_SCOPE)
endfunction()

# Calls within the shared library go to its own functions, not through a table that would let a program replace them.
# Its relocations are packed where the C library can read that, which it can since 2.36.
set(lockstep_link_flags "")
check_linker_flag(CXX -Wl,-Bsymbolic-functions LOCKSTEP_LINKER_BINDS)
if(LOCKSTEP_LINKER_BINDS)
  list(APPEND lockstep_link_flags -Wl,-Bsymbolic-functions)
endif()
check_linker_flag(CXX -Wl,--gc-sections LOCKSTEP_LINKER_DROPS)
if(LOCKSTEP_LINKER_DROPS)
  list(APPEND lockstep_link_flags -Wl,--gc-sections)  # instances of templates that nobody calls
endif()
check_linker_flag(CXX -Wl,-z,pack-relative-relocs LOCKSTEP_LINKER_PACKS)
check_cxx_source_compiles("
#include <features.h>
#if !__GLIBC_PREREQ(2, 36)
#error cannot read packed relocations
#endif
int main() {}
" LOCKSTEP_LIBC_READS_PACKED)
if(LOCKSTEP_LINKER_PACKS AND LOCKSTEP_LIBC_READS_PACKED)
  list(APPEND lockstep_link_flags -Wl,-z,pack-relative-relocs)
endif()
set(lockstep_exports ${CMAKE_CURRENT_LIST_DIR}/exports.map)
check_linker_flag(CXX -Wl,--version-script=${lockstep_exports} LOCKSTEP_LINKER_READS_EXPORTS)
if(LOCKSTEP_LINKER_READS_EXPORTS)
  list(APPEND lockstep_link_flags -Wl,--version-script=${lockstep_exports})
endif()
function(lockstep_link_options target)
  target_link_options(${target} PRIVATE ${lockstep_link_flags})
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${lockstep_exports})
endfunction()

set(lockstep_sanitizer_flags "")
set(lockstep_sanitizer_linker "")
if(LOCKSTEP_SANITIZE)
  set(lockstep_sanitizer_flags -fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(LOCKSTEP_SANITIZE MATCHES "address")
    # Checks of every pointer, which take a third of the time to compile: AddressSanitizer finds bad ones where they are used.
    list(APPEND lockstep_sanitizer_flags -fno-sanitize=null,alignment,object-size,vptr)
  endif()
  # Every test program holds the whole instrumented library, 200 MB: GNU's linker takes five times as long.
  check_linker_flag(CXX -fuse-ld=lld LOCKSTEP_LINKER_IS_LLD)
  if(LOCKSTEP_LINKER_IS_LLD)
    set(lockstep_sanitizer_linker -fuse-ld=lld)
  endif()
endif()

function(lockstep_sanitize target)
  target_compile_options(${target} PRIVATE ${lockstep_sanitizer_flags})
  target_link_options(${target} PRIVATE ${lockstep_sanitizer_flags} ${lockstep_sanitizer_linker})
endfunction()

function(lockstep_compile_options target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE
    ${lockstep_optimisation} ${lockstep_arithmetic_flags} ${lockstep_warning_flags} $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  lockstep_sanitize(${target})
endfunction()
