#include "backends/gpu/vulkan/matrices.h"

#include <algorithm>
#include <vector>

#include "backends/gpu/vulkan/shaderc.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace vulkan {
namespace {

// Numbers and a structure of VK_KHR_cooperative_matrix, which Vulkan's headers of before 2023 do not have.
constexpr const char* kKhrExtension = "VK_KHR_cooperative_matrix";
constexpr auto kKhrFeatures = static_cast<VkStructureType>(1000506000);
constexpr auto kKhrProperties = static_cast<VkStructureType>(1000506001);
struct KhrProperties {
  VkStructureType sType = kKhrProperties;
  void* pNext = nullptr;
  std::uint32_t MSize = 0, NSize = 0, KSize = 0;
  VkComponentTypeNV AType{}, BType{}, CType{}, ResultType{};
  VkBool32 saturatingAccumulation = VK_FALSE;
  VkScopeNV scope{};
};
using KhrQuery = VkResult(VKAPI_PTR*)(VkPhysicalDevice, std::uint32_t*, KhrProperties*);

constexpr const char* kFoursText =
    R"(#define PUT_FOUR(s, i, words4) s[i] = uvec4(words4[0], words4[1], words4[2], words4[3]);
#define TAKE_FOUR(s, i, words4) { uvec4 v = s[i]; words4[0] = v.x; words4[1] = v.y; words4[2] = v.z; words4[3] = v.w; }
#define WORD_OF_FOURS(s, i) s[(i) >> 2][(i) & 3]
)";

constexpr const char* kNvText = R"(#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_NV_cooperative_matrix : require
#extension GL_NV_integer_cooperative_matrix : require
#define TEAM gl_SubgroupID
#define BYTES_16_BY_32 icoopmatNV<8, gl_ScopeSubgroup, 16, 32>
#define BYTES_32_BY_16 icoopmatNV<8, gl_ScopeSubgroup, 32, 16>
#define SUMS_16_BY_16 icoopmatNV<32, gl_ScopeSubgroup, 16, 16>
#define TAKE_ROWS(m, s, i, step) coopMatLoadNV(m, s, i, step, false);
#define TAKE_COLUMNS(m, s, i, step) coopMatLoadNV(m, s, i, step, true);
#define TAKE_SUMS(m, s, i, step) coopMatLoadNV(m, s, i, step, false);
#define FILL_SUMS(m, value) m = SUMS_16_BY_16(value);
#define MULTIPLY_MATRICES(m, rows, columns) m = coopMatMulAddNV(rows, columns, m);
)";

constexpr const char* kKhrText = R"(#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_KHR_cooperative_matrix : require
#define TEAM gl_SubgroupID
#define BYTES_16_BY_32 coopmat<int8_t, gl_ScopeSubgroup, 16, 32, gl_MatrixUseA>
#define BYTES_32_BY_16 coopmat<int8_t, gl_ScopeSubgroup, 32, 16, gl_MatrixUseB>
#define SUMS_16_BY_16 coopmat<int, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define TAKE_ROWS(m, s, i, step) coopMatLoad(m, s, i, step, gl_CooperativeMatrixLayoutRowMajor);
#define TAKE_COLUMNS(m, s, i, step) coopMatLoad(m, s, i, step, gl_CooperativeMatrixLayoutColumnMajor);
#define TAKE_SUMS(m, s, i, step) coopMatLoad(m, s, i, step, gl_CooperativeMatrixLayoutRowMajor);
#define FILL_SUMS(m, value) m = SUMS_16_BY_16(value);
#define MULTIPLY_MATRICES(m, rows, columns) m = coopMatMulAdd(rows, columns, m);
)";

bool is_ours(const VkCooperativeMatrixPropertiesNV& p) {
  return p.MSize == 16 && p.NSize == 16 && p.KSize == 32 && p.AType == VK_COMPONENT_TYPE_SINT8_NV &&
         p.BType == VK_COMPONENT_TYPE_SINT8_NV && p.CType == VK_COMPONENT_TYPE_SINT32_NV &&
         p.DType == VK_COMPONENT_TYPE_SINT32_NV && p.scope == VK_SCOPE_SUBGROUP_NV;
}
bool is_ours(const KhrProperties& p) {
  const VkCooperativeMatrixPropertiesNV alike{VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV,
                                              nullptr,
                                              p.MSize,
                                              p.NSize,
                                              p.KSize,
                                              p.AType,
                                              p.BType,
                                              p.CType,
                                              p.ResultType,
                                              p.scope};
  return p.saturatingAccumulation == VK_FALSE && is_ours(alike);
}

template <typename Query, typename Properties>
bool lists_ours(VkPhysicalDevice device, const char* query_name, const Properties& empty) {
  const auto query = reinterpret_cast<Query>(api().get(api().instance, query_name));
  std::uint32_t count = 0;
  if (query == nullptr || query(device, &count, nullptr) != VK_SUCCESS) return false;
  std::vector<Properties> all(count, empty);
  if (query(device, &count, all.data()) != VK_SUCCESS) return false;
  return std::any_of(all.begin(), all.end(), [](const Properties& one) { return is_ours(one); });
}

/// Whether the extension's feature is there, and what its texts need beside it.
bool has_features(VkPhysicalDevice device, Matrices matrices) {
  VkPhysicalDeviceCooperativeMatrixFeaturesNV has_matrices = matrix_features(matrices);
  has_matrices.cooperativeMatrix = VK_FALSE;
  Features has;
  has.v10.pNext = &has.v12;
  has.v12.pNext = &has_matrices;
  api().vkGetPhysicalDeviceFeatures2(device, &has.v10);
  VkPhysicalDeviceVulkan11Properties v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES};
  VkPhysicalDeviceProperties2 v10{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  v10.pNext = &v11;
  api().vkGetPhysicalDeviceProperties2(device, &v10);
  return has_matrices.cooperativeMatrix == VK_TRUE && has.v12.vulkanMemoryModel == VK_TRUE &&
         has.v12.shaderInt8 == VK_TRUE && v11.subgroupSize == 32;
}

}  // namespace

Matrices matrices_of(VkPhysicalDevice device) {
  if (has_extension(device, kKhrExtension) && has_features(device, Matrices::khr) &&
      lists_ours<KhrQuery>(device, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", KhrProperties{}) &&
      shaderc().knows("GL_KHR_cooperative_matrix")) {
    return Matrices::khr;
  }
  if (has_extension(device, VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME) && has_features(device, Matrices::nv) &&
      lists_ours<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV>(
          device, "vkGetPhysicalDeviceCooperativeMatrixPropertiesNV",
          VkCooperativeMatrixPropertiesNV{VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV}) &&
      shaderc().knows("GL_NV_integer_cooperative_matrix")) {
    return Matrices::nv;
  }
  return Matrices::none;
}

const char* extension_of(Matrices matrices) {
  return matrices == Matrices::khr ? kKhrExtension : VK_NV_COOPERATIVE_MATRIX_EXTENSION_NAME;
}

std::string matrices_text(Matrices matrices) {
  if (matrices == Matrices::none) return "";
  return std::string(matrices == Matrices::khr ? kKhrText : kNvText) + kFoursText;
}

VkPhysicalDeviceCooperativeMatrixFeaturesNV matrix_features(Matrices matrices) {
  VkPhysicalDeviceCooperativeMatrixFeaturesNV features{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV};
  if (matrices == Matrices::khr) features.sType = kKhrFeatures;
  features.cooperativeMatrix = VK_TRUE;
  return features;
}

}  // namespace vulkan
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
