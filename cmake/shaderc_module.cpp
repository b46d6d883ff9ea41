// The functions of the static libshaderc, which are hidden in it, under names of our own: see CMakeLists.txt.
#include <cstddef>
#include <cstdint>

#include <shaderc/shaderc.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED shaderc_compiler_t lockstep_shaderc_compiler_initialize() {
  return shaderc_compiler_initialize();
}
EXPORTED shaderc_compile_options_t lockstep_shaderc_compile_options_initialize() {
  return shaderc_compile_options_initialize();
}
EXPORTED void lockstep_shaderc_compile_options_set_target_env(shaderc_compile_options_t options,
                                                              shaderc_target_env target, std::uint32_t version) {
  shaderc_compile_options_set_target_env(options, target, version);
}
EXPORTED shaderc_compilation_result_t lockstep_shaderc_compile_into_spv(const shaderc_compiler_t compiler,
                                                                        const char* source, std::size_t size,
                                                                        shaderc_shader_kind kind, const char* file,
                                                                        const char* entry,
                                                                        const shaderc_compile_options_t options) {
  return shaderc_compile_into_spv(compiler, source, size, kind, file, entry, options);
}
EXPORTED shaderc_compilation_status
lockstep_shaderc_result_get_compilation_status(shaderc_compilation_result_t result) {
  return shaderc_result_get_compilation_status(result);
}
EXPORTED std::size_t lockstep_shaderc_result_get_length(shaderc_compilation_result_t result) {
  return shaderc_result_get_length(result);
}
EXPORTED const char* lockstep_shaderc_result_get_bytes(shaderc_compilation_result_t result) {
  return shaderc_result_get_bytes(result);
}
EXPORTED const char* lockstep_shaderc_result_get_error_message(shaderc_compilation_result_t result) {
  return shaderc_result_get_error_message(result);
}
EXPORTED void lockstep_shaderc_result_release(shaderc_compilation_result_t result) {
  shaderc_result_release(result);
}
EXPORTED void lockstep_shaderc_get_spv_version(unsigned* version, unsigned* revision) {
  shaderc_get_spv_version(version, revision);
}
