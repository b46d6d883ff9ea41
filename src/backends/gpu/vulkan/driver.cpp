// Commands on a Vulkan device (vulkan/device.h). Buffers are addresses; a kernel's parameters are push constants,
// or, where they are too many, memory of a ring whose address is pushed.
//
// Commands are recorded into one of a few batches and submitted when a batch is full or somebody waits; before each
// command that depends on an earlier one stands a barrier.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/gpu/dialect.h"
#include "backends/gpu/driver.h"
#include "backends/gpu/hazards.h"
#include "backends/gpu/vulkan/device.h"
#include "backends/gpu/vulkan/shaderc.h"
#include "backends/gpu/vulkan/spirv.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using namespace vulkan;

class VulkanModule : public Module {
 public:
  VulkanModule(VkDevice device, const DeviceApi& vk) : device_(device), vk_(vk) {}
  ~VulkanModule() override {
    vk_.vkDestroyPipeline(device_, pipeline, nullptr);
    vk_.vkDestroyPipelineLayout(device_, layout, nullptr);
    drop_cache();
  }
  void drop_cache() const { vk_.vkDestroyPipelineCache(device_, std::exchange(cache, VK_NULL_HANDLE), nullptr); }

  VkPipeline pipeline = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  mutable VkPipelineCache cache = VK_NULL_HANDLE;  ///< with what the device has compiled, until that is kept

 private:
  VkDevice device_;
  const DeviceApi& vk_;
};

// A kernel on disk: how many bytes of SPIR-V, those, and what a pipeline cache gave.
std::pair<std::span<const std::byte>, std::span<const std::byte>> parts_of(std::span<const std::byte> binary) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, binary.data(), sizeof bytes);
  return {binary.subspan(sizeof bytes, bytes), binary.subspan(sizeof bytes + bytes)};
}

class VulkanDriver : public Driver {
 public:
  explicit VulkanDriver(int index) : device_(index) {
    create_batches();
    staging_ = device_.allocate(kStagingBytes, true).value_or(Block{});
    if (staging_.buffer == VK_NULL_HANDLE) throw BackendError("vulkan: no memory for transfers");
  }

  const DriverInfo& info() const override { return device_.info(); }

  std::uint64_t allocate(std::size_t bytes) override {
    const std::optional<Block> block = device_.allocate(bytes, false);
    if (!block.has_value()) return 0;
    blocks_.emplace(block->address, *block);
    return block->address;
  }
  void release(std::uint64_t address) override {
    wait();
    const auto found = blocks_.find(address);
    device_.free(found->second);
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
      vk_.vkCmdUpdateBuffer(commands, block->buffer, offset, whole_words(bytes), words.data());
      return;
    }
    for (std::size_t done = 0; done < bytes; done += kStagingBytes) {
      const std::size_t count = std::min(bytes - done, kStagingBytes);
      wait();  // for the staging memory
      std::memcpy(staging_.host, source + done, count);
      const auto [block, offset] = place_of(to + done);
      copy_blocks(staging_.buffer, 0, block->buffer, offset, whole_words(count), writing(to));
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
      vk_.vkCmdPipelineBarrier(batches_[current_].commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT,
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
    return vulkan_source(kernel, arithmetic, device_.push_words(), matrices_text(device_.matrices()));
  }
  std::vector<std::byte> compile(const std::string& source) const override {
    const std::vector<std::uint32_t> words = with_exact_arithmetic(shaderc().compile(source), device_.controls());
    const std::uint64_t bytes = 4 * words.size();
    std::vector<std::byte> binary(sizeof bytes + bytes);
    std::memcpy(binary.data(), &bytes, sizeof bytes);
    std::memcpy(binary.data() + sizeof bytes, words.data(), bytes);
    return binary;
  }

  std::unique_ptr<Module> load(std::span<const std::byte> binary, const KernelText& kernel) override {
    const auto [code, kept] = parts_of(binary);
    std::vector<std::uint32_t> words(code.size() / 4);
    std::memcpy(words.data(), code.data(), code.size());
    auto loaded = std::make_unique<VulkanModule>(device_.handle(), vk_);
    VkPipelineCacheCreateInfo cache_info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    cache_info.initialDataSize = kept.size();
    cache_info.pInitialData = kept.data();
    check(vk_.vkCreatePipelineCache(device_.handle(), &cache_info, nullptr, &loaded->cache), "vkCreatePipelineCache");
    VkPushConstantRange range{};
    range.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    range.size =
        pushes(static_cast<std::size_t>(kernel.words)) ? 4 * static_cast<std::uint32_t>(std::max(kernel.words, 1)) : 8;
    VkPipelineLayoutCreateInfo layout_info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    layout_info.pushConstantRangeCount = 1;
    layout_info.pPushConstantRanges = &range;
    check(vk_.vkCreatePipelineLayout(device_.handle(), &layout_info, nullptr, &loaded->layout),
          "vkCreatePipelineLayout");
    VkShaderModuleCreateInfo module_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    module_info.codeSize = code.size();
    module_info.pCode = words.data();
    VkShaderModule module = VK_NULL_HANDLE;
    check(vk_.vkCreateShaderModule(device_.handle(), &module_info, nullptr, &module), "vkCreateShaderModule");
    VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = module;
    info.stage.pName = "main";
    info.layout = loaded->layout;
    const VkResult result =
        vk_.vkCreateComputePipelines(device_.handle(), loaded->cache, 1, &info, nullptr, &loaded->pipeline);
    vk_.vkDestroyShaderModule(device_.handle(), module, nullptr);
    check(result, "vkCreateComputePipelines");
    if (!kept.empty()) loaded->drop_cache();
    return loaded;
  }

  std::vector<std::byte> to_keep(std::vector<std::byte> binary, const Module& module) const override {
    const auto& loaded = static_cast<const VulkanModule&>(module);
    std::size_t bytes = 0;
    VkResult result = vk_.vkGetPipelineCacheData(device_.handle(), loaded.cache, &bytes, nullptr);
    if (result == VK_SUCCESS) {
      const std::size_t before = binary.size();
      binary.resize(before + bytes);
      result = vk_.vkGetPipelineCacheData(device_.handle(), loaded.cache, &bytes, binary.data() + before);
      binary.resize(before + (result == VK_SUCCESS ? bytes : 0));  // without it the device compiles again
    }
    loaded.drop_cache();
    return binary;
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
      const std::optional<Block> block = device_.allocate(bytes, true);
      if (!block.has_value()) return nullptr;
      recording->words = *block;
    }
    VkCommandBufferAllocateInfo allocation{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    allocation.commandPool = pool_;
    allocation.level = VK_COMMAND_BUFFER_LEVEL_SECONDARY;
    allocation.commandBufferCount = 1;
    check(vk_.vkAllocateCommandBuffers(device_.handle(), &allocation, &recording->commands),
          "vkAllocateCommandBuffers");
    VkCommandBufferInheritanceInfo inheritance{VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
    VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    info.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
    info.pInheritanceInfo = &inheritance;
    check(vk_.vkBeginCommandBuffer(recording->commands, &info), "vkBeginCommandBuffer");
    Hazards hazards;
    std::size_t used = 0;
    for (const Command& command : list) {
      if (hazards.add(command.accesses)) put_barrier(recording->commands);
      dispatch(recording->commands, static_cast<const VulkanModule&>(*command.module), command.groups, command.words,
               recording->words, used);
    }
    check(vk_.vkEndCommandBuffer(recording->commands), "vkEndCommandBuffer");
    recording->launches = static_cast<int>(list.size());
    return recording;
  }
  void replay(Recording& recording) override {
    const auto& recorded = static_cast<const VulkanRecording&>(recording);
    hazards_.add_unknown();
    vk_.vkCmdExecuteCommands(begin_command({}), 1, &recorded.commands);
    hazards_.add_unknown();
    if ((batches_[current_].launches += recorded.launches) >= kLaunchesPerBatch) submit();
  }

  // While the device is busy, more is collected: a submission costs as much as ten launches.
  void start() override {
    for (const Batch& batch : batches_) {
      if (batch.in_flight && vk_.vkGetFenceStatus(device_.handle(), batch.fence) == VK_NOT_READY) return;
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
      if (commands != VK_NULL_HANDLE)
        driver.vk_.vkFreeCommandBuffers(driver.device_.handle(), driver.pool_, 1, &commands);
      if (words.buffer != VK_NULL_HANDLE) driver.device_.free(words);
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
  bool pushes(std::size_t words) const { return words <= static_cast<std::size_t>(device_.push_words()); }

  void create_batches() {
    VkCommandPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    pool_info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    pool_info.queueFamilyIndex = device_.queue_family();
    check(vk_.vkCreateCommandPool(device_.handle(), &pool_info, nullptr, &pool_), "vkCreateCommandPool");
    for (Batch& batch : batches_) {
      VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
      info.commandPool = pool_;
      info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
      info.commandBufferCount = 1;
      check(vk_.vkAllocateCommandBuffers(device_.handle(), &info, &batch.commands), "vkAllocateCommandBuffers");
      VkFenceCreateInfo fence{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
      check(vk_.vkCreateFence(device_.handle(), &fence, nullptr, &batch.fence), "vkCreateFence");
      batch.ring = device_.allocate(kRingBytes, true).value_or(Block{});
      if (batch.ring.buffer == VK_NULL_HANDLE) throw BackendError("vulkan: no memory for parameters");
    }
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
    vk_.vkCmdCopyBuffer(begin_command(accesses), from, to, 1, &region);
  }

  // Commands are recorded in order. Barriers hold across batches, which are submitted to one queue.
  VkCommandBuffer begin_command(std::span<const Access> accesses) {
    Batch& batch = batches_[current_];
    if (!batch.recording) {
      finish(batch);
      VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
      info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
      check(vk_.vkBeginCommandBuffer(batch.commands, &info), "vkBeginCommandBuffer");
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
    vk_.vkCmdPipelineBarrier(commands, kStages, kStages, 0, 1, &memory, 0, nullptr, 0, nullptr);
  }

  // `ring`: where parameters go that are too many to be pushed, from byte `used` on.
  void dispatch(VkCommandBuffer commands, const VulkanModule& kernel, std::uint32_t groups,
                std::span<const std::uint32_t> words, const Block& ring, std::size_t& used) {
    const auto bytes = static_cast<std::uint32_t>(4 * words.size());
    vk_.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel.pipeline);
    if (pushes(words.size())) {
      if (bytes > 0)
        vk_.vkCmdPushConstants(commands, kernel.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, bytes, words.data());
    } else {
      std::memcpy(ring.host + used, words.data(), bytes);
      const std::uint64_t address = ring.address + used;
      used += aligned(bytes);
      vk_.vkCmdPushConstants(commands, kernel.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 8, &address);
    }
    vk_.vkCmdDispatch(commands, groups, 1, 1);
  }

  void submit() {
    Batch& batch = batches_[current_];
    if (!batch.recording) return;
    batch.recording = false;
    check(vk_.vkEndCommandBuffer(batch.commands), "vkEndCommandBuffer");
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.commandBufferCount = 1;
    info.pCommandBuffers = &batch.commands;
    check(vk_.vkQueueSubmit(device_.queue(), 1, &info, batch.fence), "vkQueueSubmit");
    batch.in_flight = true;
    current_ = (current_ + 1) % batches_.size();
  }

  void finish(Batch& batch) {
    if (!batch.in_flight) return;
    check(vk_.vkWaitForFences(device_.handle(), 1, &batch.fence, VK_TRUE, ~std::uint64_t{0}), "vkWaitForFences");
    check(vk_.vkResetFences(device_.handle(), 1, &batch.fence), "vkResetFences");
    batch.in_flight = false;
  }

  LogicalDevice device_;
  const DeviceApi& vk_ = device_.functions();
  std::map<std::uint64_t, Block> blocks_;
  Block staging_;
  Hazards hazards_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  std::array<Batch, 4> batches_;
  std::size_t current_ = 0;
};

}  // namespace

std::unique_ptr<Driver> open_vulkan(int index) {
  return std::make_unique<VulkanDriver>(index);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
