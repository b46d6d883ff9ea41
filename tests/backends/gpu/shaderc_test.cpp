#include "backends/gpu/vulkan/shaderc.h"

#include <gtest/gtest.h>

namespace lockstep::gpu {
namespace {

TEST(Shaderc, TheAdviceFitsTheCause) {
  const std::string own = "/opt/lib/liblockstep_shaderc.so";
  const std::string missing = "libshaderc.so.1: cannot open shared object file: No such file or directory";
  const std::string broken = "/usr/lib/libshaderc.so.1: undefined symbol: _ZN7glslang10InitializeEv";
  const std::string absent = shaderc_advice("libshaderc.so.1", missing, "/opt/lib");
  EXPECT_EQ(absent.find("apt install libshaderc1"), 0u) << absent;
  EXPECT_NE(absent.find("/opt/lib"), std::string::npos) << absent;
  const std::string unusable = shaderc_advice("libshaderc.so.1", broken, "/opt/lib");
  EXPECT_EQ(unusable.find("apt install"), std::string::npos) << unusable << ": it is installed";
  EXPECT_NE(unusable.find("is installed, but does not load"), std::string::npos) << unusable;
  EXPECT_NE(unusable.find("libshaderc-dev"), std::string::npos) << unusable;
  const std::string ours = shaderc_advice(own, own + ": file too short", "/opt/lib");
  EXPECT_EQ(ours.find(own + " does not load here"), 0u) << ours;
}

}  // namespace
}  // namespace lockstep::gpu
