// Vulkan 1.2 through the loader opened at run time. Buffers are addresses; a kernel's parameters are push constants,
// or, where they are too many, memory of a ring whose address is pushed.
//
// Commands are recorded into one of a few batches and submitted when a batch is full or somebody waits; before each
// command that depends on an earlier one stands a barrier.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/gpu/dialect.h"
#include "backends/gpu/driver.h"
#include "backends/gpu/hazards.h"
#include "backends/gpu/vulkan/shaderc.h"
#include "backends/gpu/vulkan/spirv.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

const std::string kNames[] = {"libvulkan.so.1", "libvulkan.so"};
constexpr std::uint32_t kApiVersion = VK_API_VERSION_1_2;

#define LOCKSTEP_INSTANCE_FUNCTIONS(X)        \
  X(vkEnumeratePhysicalDevices)               \
  X(vkGetPhysicalDeviceProperties)            \
  X(vkGetPhysicalDeviceProperties2)           \
  X(vkGetPhysicalDeviceFeatures2)             \
  X(vkGetPhysicalDeviceQueueFamilyProperties) \
  X(vkGetPhysicalDeviceMemoryProperties) X(vkCreateDevice) X(vkGetDeviceProcAddr)
#define LOCKSTEP_DEVICE_FUNCTIONS(X)                                                                                \
  X(vkGetDeviceQueue)                                                                                               \
  X(vkCreateBuffer)                                                                                                 \
  X(vkDestroyBuffer)                                                                                                \
  X(vkGetBufferMemoryRequirements)                                                                                  \
  X(vkAllocateMemory)                                                                                               \
  X(vkFreeMemory) X(vkBindBufferMemory) X(vkGetBufferDeviceAddress) X(vkMapMemory) X(vkCreateCommandPool)           \
      X(vkAllocateCommandBuffers) X(vkBeginCommandBuffer) X(vkEndCommandBuffer) X(vkCreateFence) X(vkWaitForFences) \
          X(vkResetFences) X(vkGetFenceStatus) X(vkQueueSubmit) X(vkCmdPipelineBarrier) X(vkCmdCopyBuffer)          \
              X(vkCmdUpdateBuffer) X(vkCmdExecuteCommands) X(vkFreeCommandBuffers) X(vkCmdBindPipeline)             \
                  X(vkCmdPushConstants) X(vkCmdDispatch) X(vkCreateShaderModule) X(vkDestroyShaderModule)           \
                      X(vkCreatePipelineLayout) X(vkDestroyPipelineLayout) X(vkCreateComputePipelines)              \
                          X(vkDestroyPipeline)

/// The loader and one instance.
struct Api {
  os::SharedLibrary library{kNames};
  std::string missing;
  VkInstance instance = VK_NULL_HANDLE;
  PFN_vkGetInstanceProcAddr get = nullptr;
#define X(name) PFN_##name name = nullptr;
  LOCKSTEP_INSTANCE_FUNCTIONS(X)
#undef X
  std::vector<VkPhysicalDevice> devices;  ///< that can be used

  Api() {
    if (!library.is_open()) {
      missing = library.error();
      return;
    }
    get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(library.function("vkGetInstanceProcAddr"));
    const auto create =
        get == nullptr ? nullptr : reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
    if (create == nullptr) {
      missing = "the Vulkan loader has no vkCreateInstance";
      return;
    }
    VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    application.pApplicationName = "lockstep";
    application.apiVersion = kApiVersion;
    VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    info.pApplicationInfo = &application;
    const VkResult result = create(&info, nullptr, &instance);
    if (result != VK_SUCCESS) {
      missing = fmt::format("vkCreateInstance failed ({}): no Vulkan driver is installed", static_cast<int>(result));
      return;
    }
#define X(name) name = reinterpret_cast<PFN_##name>(get(instance, #name));
    LOCKSTEP_INSTANCE_FUNCTIONS(X)
#undef X
    std::uint32_t count = 0;
    vkEnumeratePhysicalDevices(instance, &count, nullptr);
    std::vector<VkPhysicalDevice> all(count);
    vkEnumeratePhysicalDevices(instance, &count, all.data());
    for (VkPhysicalDevice device : all) {
      const std::string problem = problem_of(device);
      if (problem.empty()) {
        devices.push_back(device);
      } else {
        missing += (missing.empty() ? "" : "; ") + problem;
      }
    }
    if (all.empty()) missing = "no Vulkan device is present";
  }

  struct Features {
    VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
    VkPhysicalDeviceFeatures2 v10{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  };

  VkPhysicalDeviceProperties properties_of(VkPhysicalDevice device) const {
    VkPhysicalDeviceProperties properties{};
    vkGetPhysicalDeviceProperties(device, &properties);
    return properties;
  }

  // Why a device cannot be used; empty if it can.
  std::string problem_of(VkPhysicalDevice device) const {
    const VkPhysicalDeviceProperties properties = properties_of(device);
    if (properties.apiVersion < kApiVersion) {
      return fmt::format("{} has Vulkan {}.{}; 1.2 is needed", properties.deviceName,
                         VK_API_VERSION_MAJOR(properties.apiVersion), VK_API_VERSION_MINOR(properties.apiVersion));
    }
    Features has;
    has.v10.pNext = &has.v11;
    has.v11.pNext = &has.v12;
    vkGetPhysicalDeviceFeatures2(device, &has.v10);
    std::string lacks;
    const auto need = [&](VkBool32 feature, const char* name) {
      if (feature == VK_FALSE) lacks += fmt::format("{}{}", lacks.empty() ? "" : ", ", name);
    };
    need(has.v12.bufferDeviceAddress, "bufferDeviceAddress");
    need(has.v12.storageBuffer8BitAccess, "storageBuffer8BitAccess");
    need(has.v11.storageBuffer16BitAccess, "storageBuffer16BitAccess");
    need(has.v10.features.shaderInt64, "shaderInt64");
    need(has.v10.features.shaderFloat64, "shaderFloat64");
    need(properties.limits.maxComputeWorkGroupInvocations >= 256 ? VK_TRUE : VK_FALSE, "workgroups of 256");
    return lacks.empty() ? "" : fmt::format("{} lacks {}", properties.deviceName, lacks);
  }
};

// Never destroyed: buffers with static storage may be released after static objects are gone.
const Api& api() {
  static const Api* const instance = new Api;
  return *instance;
}

void check(VkResult result, const char* call) {
  if (result == VK_SUCCESS) return;
  const char* what = result == VK_ERROR_DEVICE_LOST            ? "the device was lost"
                     : result == VK_ERROR_OUT_OF_DEVICE_MEMORY ? "out of device memory"
                     : result == VK_ERROR_OUT_OF_HOST_MEMORY   ? "out of memory"
                                                               : "";
  throw BackendError(fmt::format("vulkan: {} failed with {} {}", call, static_cast<int>(result), what));
}

struct DeviceApi {
#define X(name) PFN_##name name = nullptr;
  LOCKSTEP_DEVICE_FUNCTIONS(X)
#undef X
  explicit DeviceApi(VkDevice device) {
#define X(name) name = reinterpret_cast<PFN_##name>(api().vkGetDeviceProcAddr(device, #name));
    LOCKSTEP_DEVICE_FUNCTIONS(X)
#undef X
  }
};

struct Block {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  std::size_t bytes = 0;
  std::uint64_t address = 0;
  std::byte* host = nullptr;  ///< where it is mapped
};

class VulkanModule : public Module {
 public:
  VulkanModule(VkDevice device, const DeviceApi& vk, VkPipeline pipeline, VkPipelineLayout layout)
      : device_(device), vk_(vk), pipeline_(pipeline), layout_(layout) {}
  ~VulkanModule() override {
    vk_.vkDestroyPipeline(device_, pipeline_, nullptr);
    vk_.vkDestroyPipelineLayout(device_, layout_, nullptr);
  }
  VkPipeline pipeline() const { return pipeline_; }
  VkPipelineLayout layout() const { return layout_; }

 private:
  VkDevice device_;
  const DeviceApi& vk_;
  VkPipeline pipeline_;
  VkPipelineLayout layout_;
};

class VulkanDriver : public Driver {
 public:
  explicit VulkanDriver(int index) : physical_(api().devices.at(static_cast<std::size_t>(index))) {
    if (!shaderc().is_usable()) throw BackendError("vulkan: " + shaderc().problem());
    find_queue_family();
    create_device();
    vk_.emplace(device_);
    vk_->vkGetDeviceQueue(device_, family_, 0, &queue_);
    describe();
    create_batches();
    staging_ = make_block(kStagingBytes, true).value_or(Block{});
    if (staging_.buffer == VK_NULL_HANDLE) throw BackendError("vulkan: no memory for transfers");
  }

  const DriverInfo& info() const override { return info_; }

  std::uint64_t allocate(std::size_t bytes) override {
    const std::optional<Block> block = make_block(bytes, false);
    if (!block.has_value()) return 0;
    blocks_.emplace(block->address, *block);
    return block->address;
  }
  void release(std::uint64_t address) override {
    wait();
    const auto found = blocks_.find(address);
    vk_->vkDestroyBuffer(device_, found->second.buffer, nullptr);
    vk_->vkFreeMemory(device_, found->second.memory, nullptr);
    blocks_.erase(found);
  }

  void upload(std::uint64_t to, const void* from, std::size_t bytes) override {
    constexpr std::size_t kInline = 16 << 10;
    const auto* source = static_cast<const std::byte*>(from);
    if (bytes <= kInline) {
      std::array<std::uint32_t, kInline / 4> words{};
      std::memcpy(words.data(), source, bytes);
      VkCommandBuffer commands = begin_command(writing(to));
      const auto [block, offset] = place_of(to);
      vk_->vkCmdUpdateBuffer(commands, block->buffer, offset, rounded(bytes), words.data());
      return;
    }
    for (std::size_t done = 0; done < bytes; done += kStagingBytes) {
      const std::size_t count = std::min(bytes - done, kStagingBytes);
      wait();  // for the staging memory
      std::memcpy(staging_.host, source + done, count);
      const auto [block, offset] = place_of(to + done);
      copy_blocks(staging_.buffer, 0, block->buffer, offset, rounded(count), writing(to));
    }
  }

  void download(void* to, std::uint64_t from, std::size_t bytes) override {
    for (std::size_t done = 0; done < bytes; done += kStagingBytes) {
      const std::size_t count = std::min(bytes - done, kStagingBytes);
      const auto [block, offset] = place_of(from + done);
      hazards_.add_unknown();  // `from` may lie inside an allocation
      copy_blocks(block->buffer, offset, staging_.buffer, 0, count, {});
      VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
      barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
      barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
      vk_->vkCmdPipelineBarrier(batches_[current_].commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT,
                                0, 1, &barrier, 0, nullptr, 0, nullptr);
      wait();
      std::memcpy(static_cast<std::byte*>(to) + done, staging_.host, count);
    }
  }

  void copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    const auto [target, target_offset] = place_of(to);
    const auto [source, source_offset] = place_of(from);
    const Access accesses[] = {{from, 0, false}, {to, 0, true}};
    copy_blocks(source->buffer, source_offset, target->buffer, target_offset, bytes, accesses);
  }

  std::string source(const KernelText& kernel, const Arithmetic& arithmetic) const override {
    return vulkan_source(kernel, arithmetic, push_words_);
  }
  std::vector<std::byte> compile(const std::string& source) const override {
    const std::vector<std::uint32_t> words = with_exact_arithmetic(shaderc().compile(source), controls_);
    const auto* bytes = reinterpret_cast<const std::byte*>(words.data());
    return {bytes, bytes + 4 * words.size()};
  }

  std::unique_ptr<Module> load(std::span<const std::byte> binary, const KernelText& kernel) override {
    std::vector<std::uint32_t> words(binary.size() / 4);
    std::memcpy(words.data(), binary.data(), 4 * words.size());
    VkShaderModuleCreateInfo module_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    module_info.codeSize = 4 * words.size();
    module_info.pCode = words.data();
    VkShaderModule module = VK_NULL_HANDLE;
    check(vk_->vkCreateShaderModule(device_, &module_info, nullptr, &module), "vkCreateShaderModule");
    VkPushConstantRange range{};
    range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    range.size =
        pushes(static_cast<std::size_t>(kernel.words)) ? 4 * static_cast<std::uint32_t>(std::max(kernel.words, 1)) : 8;
    VkPipelineLayoutCreateInfo layout_info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    layout_info.pushConstantRangeCount = 1;
    layout_info.pPushConstantRanges = &range;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    VkResult result = vk_->vkCreatePipelineLayout(device_, &layout_info, nullptr, &layout);
    VkPipeline pipeline = VK_NULL_HANDLE;
    if (result == VK_SUCCESS) {
      VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
      info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
      info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
      info.stage.module = module;
      info.stage.pName = "main";
      info.layout = layout;
      result = vk_->vkCreateComputePipelines(device_, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
      if (result != VK_SUCCESS) vk_->vkDestroyPipelineLayout(device_, layout, nullptr);
    }
    vk_->vkDestroyShaderModule(device_, module, nullptr);
    check(result, "vkCreateComputePipelines");
    return std::make_unique<VulkanModule>(device_, *vk_, pipeline, layout);
  }

  void launch(const Module& module, std::uint32_t groups, std::span<const std::uint32_t> words,
              std::span<const Access> accesses) override {
    const auto& kernel = static_cast<const VulkanModule&>(module);
    const std::uint32_t bytes = static_cast<std::uint32_t>(4 * words.size());
    if (!pushes(words.size()) && batches_[current_].used + bytes + kAlignment > kRingBytes) submit();
    VkCommandBuffer commands = begin_command(accesses);
    dispatch(commands, kernel, groups, words, batches_[current_].ring, batches_[current_].used);
    if (++batches_[current_].launches >= kLaunchesPerBatch) submit();
  }

  std::unique_ptr<Recording> record(std::span<const Command> list) override {
    std::size_t bytes = 0;
    for (const Command& command : list) bytes += pushes(command.words.size()) ? 0 : aligned(4 * command.words.size());
    auto recording = std::make_unique<VulkanRecording>(*this);
    if (bytes > 0) {
      const std::optional<Block> block = make_block(bytes, true);
      if (!block.has_value()) return nullptr;
      recording->words = *block;
    }
    VkCommandBufferAllocateInfo allocation{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    allocation.commandPool = pool_;
    allocation.level = VK_COMMAND_BUFFER_LEVEL_SECONDARY;
    allocation.commandBufferCount = 1;
    check(vk_->vkAllocateCommandBuffers(device_, &allocation, &recording->commands), "vkAllocateCommandBuffers");
    VkCommandBufferInheritanceInfo inheritance{VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
    VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    info.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    info.pInheritanceInfo = &inheritance;
    check(vk_->vkBeginCommandBuffer(recording->commands, &info), "vkBeginCommandBuffer");
    Hazards hazards;
    std::size_t used = 0;
    for (const Command& command : list) {
      if (hazards.add(command.accesses)) put_barrier(recording->commands);
      dispatch(recording->commands, static_cast<const VulkanModule&>(*command.module), command.groups, command.words,
               recording->words, used);
    }
    check(vk_->vkEndCommandBuffer(recording->commands), "vkEndCommandBuffer");
    recording->launches = static_cast<int>(list.size());
    return recording;
  }
  void replay(Recording& recording) override {
    const auto& recorded = static_cast<const VulkanRecording&>(recording);
    hazards_.add_unknown();
    vk_->vkCmdExecuteCommands(begin_command({}), 1, &recorded.commands);
    hazards_.add_unknown();
    if ((batches_[current_].launches += recorded.launches) >= kLaunchesPerBatch) submit();
  }

  // While the device is busy, more is collected: a submission costs as much as ten launches.
  void start() override {
    for (const Batch& batch : batches_) {
      if (batch.in_flight && vk_->vkGetFenceStatus(device_, batch.fence) == VK_NOT_READY) return;
    }
    submit();
  }

  void wait() override {
    submit();
    for (Batch& batch : batches_) finish(batch);
  }

 private:
  /// A command buffer that is executed from others.
  struct VulkanRecording : Recording {
    explicit VulkanRecording(VulkanDriver& made_by) : driver(made_by) {}
    ~VulkanRecording() override {
      try {
        driver.wait();  // it may be executing
      } catch (const BackendError&) {
        // A lost device executes nothing.
      }
      if (commands != VK_NULL_HANDLE) driver.vk_->vkFreeCommandBuffers(driver.device_, driver.pool_, 1, &commands);
      if (words.buffer == VK_NULL_HANDLE) return;
      driver.vk_->vkDestroyBuffer(driver.device_, words.buffer, nullptr);
      driver.vk_->vkFreeMemory(driver.device_, words.memory, nullptr);
    }
    VulkanDriver& driver;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    Block words;  ///< parameters that are too many to be pushed
    int launches = 0;
  };

  static constexpr std::size_t kStagingBytes = 16 << 20;
  static constexpr std::size_t kRingBytes = 256 << 10;
  static constexpr std::size_t kAlignment = 16;
  static constexpr int kLaunchesPerBatch = 64;

  struct Batch {
    VkCommandBuffer commands = VK_NULL_HANDLE;
    VkFence fence = VK_NULL_HANDLE;
    Block ring;
    std::size_t used = 0;
    int launches = 0;
    bool recording = false;
    bool in_flight = false;
  };

  static std::array<Access, 1> writing(std::uint64_t address) { return {{{address, 0, true}}}; }
  static std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
  static std::size_t rounded(std::size_t bytes) { return (bytes + 3) / 4 * 4; }
  bool pushes(std::size_t words) const { return words <= static_cast<std::size_t>(push_words_); }

  void find_queue_family() {
    std::uint32_t count = 0;
    api().vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    api().vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, families.data());
    for (std::uint32_t i = 0; i < count; ++i) {
      if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0) {
        family_ = i;
        return;
      }
    }
    throw BackendError("vulkan: the device has no queue that computes");
  }

  void create_device() {
    Api::Features wanted;
    wanted.v10.pNext = &wanted.v11;
    wanted.v11.pNext = &wanted.v12;
    wanted.v12.bufferDeviceAddress = VK_TRUE;
    wanted.v12.storageBuffer8BitAccess = VK_TRUE;
    wanted.v11.storageBuffer16BitAccess = VK_TRUE;
    wanted.v10.features.shaderInt64 = VK_TRUE;
    wanted.v10.features.shaderFloat64 = VK_TRUE;
    const float priority = 1.0F;
    VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queue.queueFamilyIndex = family_;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    info.pNext = &wanted.v10;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    check(api().vkCreateDevice(physical_, &info, nullptr, &device_), "vkCreateDevice");
  }

  void describe() {
    VkPhysicalDeviceVulkan12Properties v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES};
    VkPhysicalDeviceProperties2 v10{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    v10.pNext = &v12;
    api().vkGetPhysicalDeviceProperties2(physical_, &v10);
    const VkPhysicalDeviceProperties& properties = v10.properties;
    controls_.keep_specials_32 = v12.shaderSignedZeroInfNanPreserveFloat32 == VK_TRUE;
    controls_.nearest_32 = v12.shaderRoundingModeRTEFloat32 == VK_TRUE;
    controls_.keep_subnormals_32 = v12.shaderDenormPreserveFloat32 == VK_TRUE;
    controls_.keep_specials_64 = v12.shaderSignedZeroInfNanPreserveFloat64 == VK_TRUE;
    controls_.nearest_64 = v12.shaderRoundingModeRTEFloat64 == VK_TRUE;
    controls_.keep_subnormals_64 = v12.shaderDenormPreserveFloat64 == VK_TRUE;
    // Different modes for different widths are a feature of their own.
    if (v12.denormBehaviorIndependence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE)
      controls_.keep_subnormals_64 = controls_.keep_subnormals_32 = false;
    api().vkGetPhysicalDeviceMemoryProperties(physical_, &memory_);
    for (std::uint32_t h = 0; h < memory_.memoryHeapCount; ++h) {
      if ((memory_.memoryHeaps[h].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0) {
        info_.memory_bytes = std::max<std::uint64_t>(info_.memory_bytes, memory_.memoryHeaps[h].size);
      }
    }
    push_words_ = static_cast<int>(properties.limits.maxPushConstantsSize / 4);
    info_.name = properties.deviceName;
    info_.software = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    info_.api =
        fmt::format("Vulkan {}.{}, {} {}, shaderc for SPIR-V {}", VK_API_VERSION_MAJOR(properties.apiVersion),
                    VK_API_VERSION_MINOR(properties.apiVersion), v12.driverName, v12.driverInfo, shaderc().version());
    info_.features = "buffer addresses, 8 and 16 bit storage, i64";
    info_.identity = fmt::format("vulkan {} {} {} {} controls {}{}{}{}{}{} shaderc {}", properties.deviceName,
                                 properties.driverVersion, v12.driverInfo, push_words_, controls_.keep_specials_32,
                                 controls_.nearest_32, controls_.keep_subnormals_32, controls_.keep_specials_64,
                                 controls_.nearest_64, controls_.keep_subnormals_64, shaderc().version());
    info_.groups = properties.limits.maxComputeWorkGroupCount[0];
    info_.shared_bytes = properties.limits.maxComputeSharedMemorySize;
    // Vulkan does not tell how many units there are.
    info_.units = info_.software ? 2 : info_.memory_bytes > std::uint64_t{16} << 30 ? 96 : 32;
  }

  void create_batches() {
    VkCommandPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    pool_info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    pool_info.queueFamilyIndex = family_;
    check(vk_->vkCreateCommandPool(device_, &pool_info, nullptr, &pool_), "vkCreateCommandPool");
    for (Batch& batch : batches_) {
      VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
      info.commandPool = pool_;
      info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
      info.commandBufferCount = 1;
      check(vk_->vkAllocateCommandBuffers(device_, &info, &batch.commands), "vkAllocateCommandBuffers");
      VkFenceCreateInfo fence{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
      check(vk_->vkCreateFence(device_, &fence, nullptr, &batch.fence), "vkCreateFence");
      batch.ring = make_block(kRingBytes, true).value_or(Block{});
      if (batch.ring.buffer == VK_NULL_HANDLE) throw BackendError("vulkan: no memory for parameters");
    }
  }

  std::optional<Block> make_block(std::size_t bytes, bool for_host) {
    Block block;
    block.bytes = rounded(bytes);
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = block.bytes;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    if (vk_->vkCreateBuffer(device_, &info, nullptr, &block.buffer) != VK_SUCCESS) return std::nullopt;
    VkMemoryRequirements needs{};
    vk_->vkGetBufferMemoryRequirements(device_, block.buffer, &needs);
    VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
    flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
    VkMemoryAllocateInfo allocation{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
    allocation.pNext = &flags;
    allocation.allocationSize = needs.size;
    allocation.memoryTypeIndex = memory_type(needs.memoryTypeBits, for_host);
    VkResult result = vk_->vkAllocateMemory(device_, &allocation, nullptr, &block.memory);
    if (result == VK_SUCCESS) result = vk_->vkBindBufferMemory(device_, block.buffer, block.memory, 0);
    void* host = nullptr;
    if (result == VK_SUCCESS && for_host) result = vk_->vkMapMemory(device_, block.memory, 0, VK_WHOLE_SIZE, 0, &host);
    if (result != VK_SUCCESS) {
      vk_->vkDestroyBuffer(device_, block.buffer, nullptr);
      if (block.memory != VK_NULL_HANDLE) vk_->vkFreeMemory(device_, block.memory, nullptr);
      return std::nullopt;
    }
    block.host = static_cast<std::byte*>(host);
    VkBufferDeviceAddressInfo address{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
    address.buffer = block.buffer;
    block.address = vk_->vkGetBufferDeviceAddress(device_, &address);
    return block;
  }

  std::uint32_t memory_type(std::uint32_t allowed, bool for_host) const {
    const VkMemoryPropertyFlags needed =
        for_host ? VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
                 : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    const VkMemoryPropertyFlags liked = for_host ? VK_MEMORY_PROPERTY_HOST_CACHED_BIT : 0;
    for (const VkMemoryPropertyFlags flags : {needed | liked, needed, VkMemoryPropertyFlags{0}}) {
      for (std::uint32_t t = 0; t < memory_.memoryTypeCount; ++t) {
        if ((allowed >> t & 1) != 0 && (memory_.memoryTypes[t].propertyFlags & flags) == flags) return t;
      }
    }
    throw BackendError("vulkan: no memory of the kind that buffers need");
  }

  std::pair<const Block*, std::size_t> place_of(std::uint64_t address) const {
    const auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) throw BackendError("vulkan: an address outside all buffers");
    const Block& block = std::prev(after)->second;
    return {&block, address - block.address};
  }

  void copy_blocks(VkBuffer from, std::size_t from_offset, VkBuffer to, std::size_t to_offset, std::size_t bytes,
                   std::span<const Access> accesses) {
    const VkBufferCopy region{from_offset, to_offset, bytes};
    vk_->vkCmdCopyBuffer(begin_command(accesses), from, to, 1, &region);
  }

  // Commands are recorded in order. Barriers hold across batches, which are submitted to one queue.
  VkCommandBuffer begin_command(std::span<const Access> accesses) {
    Batch& batch = batches_[current_];
    if (!batch.recording) {
      finish(batch);
      VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
      info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
      check(vk_->vkBeginCommandBuffer(batch.commands, &info), "vkBeginCommandBuffer");
      batch.recording = true;
      batch.used = 0;
      batch.launches = 0;
    }
    if (hazards_.add(accesses)) put_barrier(batch.commands);
    return batch.commands;
  }

  // What is recorded next waits for everything before.
  void put_barrier(VkCommandBuffer commands) {
    constexpr VkPipelineStageFlags kStages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    VkMemoryBarrier memory{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    memory.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    memory.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_READ_BIT |
                           VK_ACCESS_TRANSFER_WRITE_BIT;
    vk_->vkCmdPipelineBarrier(commands, kStages, kStages, 0, 1, &memory, 0, nullptr, 0, nullptr);
  }

  // `ring`: where parameters go that are too many to be pushed, from byte `used` on.
  void dispatch(VkCommandBuffer commands, const VulkanModule& kernel, std::uint32_t groups,
                std::span<const std::uint32_t> words, const Block& ring, std::size_t& used) {
    const auto bytes = static_cast<std::uint32_t>(4 * words.size());
    vk_->vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel.pipeline());
    if (pushes(words.size())) {
      if (bytes > 0)
        vk_->vkCmdPushConstants(commands, kernel.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, bytes, words.data());
    } else {
      std::memcpy(ring.host + used, words.data(), bytes);
      const std::uint64_t address = ring.address + used;
      used += aligned(bytes);
      vk_->vkCmdPushConstants(commands, kernel.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, &address);
    }
    vk_->vkCmdDispatch(commands, groups, 1, 1);
  }

  void submit() {
    Batch& batch = batches_[current_];
    if (!batch.recording) return;
    batch.recording = false;
    check(vk_->vkEndCommandBuffer(batch.commands), "vkEndCommandBuffer");
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.commandBufferCount = 1;
    info.pCommandBuffers = &batch.commands;
    check(vk_->vkQueueSubmit(queue_, 1, &info, batch.fence), "vkQueueSubmit");
    batch.in_flight = true;
    current_ = (current_ + 1) % batches_.size();
  }

  void finish(Batch& batch) {
    if (!batch.in_flight) return;
    check(vk_->vkWaitForFences(device_, 1, &batch.fence, VK_TRUE, ~std::uint64_t{0}), "vkWaitForFences");
    check(vk_->vkResetFences(device_, 1, &batch.fence), "vkResetFences");
    batch.in_flight = false;
  }

  VkPhysicalDevice physical_;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  std::uint32_t family_ = 0;
  std::optional<DeviceApi> vk_;
  VkPhysicalDeviceMemoryProperties memory_{};
  FloatControls controls_;
  int push_words_ = 32;
  DriverInfo info_;
  std::map<std::uint64_t, Block> blocks_;
  Block staging_;
  Hazards hazards_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::array<Batch, 4> batches_;
  std::size_t current_ = 0;
};

}  // namespace

Found find_vulkan() {
  Found found;
  for (VkPhysicalDevice device : api().devices) {
    const VkPhysicalDeviceProperties properties = api().properties_of(device);
    found.devices.push_back({properties.deviceName, properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU});
  }
  found.reason = api().missing;
  found.fix = "needs a Vulkan 1.2 driver, the loader (apt install libvulkan1) and shaderc (apt install libshaderc1)";
  if (!found.devices.empty() && !shaderc().is_usable()) {
    found.devices.clear();
    found.reason = shaderc().problem();
    found.fix = "apt install libshaderc1";
  }
  return found;
}

std::unique_ptr<Driver> open_vulkan(int index) {
  return std::make_unique<VulkanDriver>(index);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
