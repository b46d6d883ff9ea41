#include "core/device.h"

#include <set>

#include <gtest/gtest.h>

#include <lockstep/error.h>

namespace lockstep {
namespace {

/// Devices that a test makes up.
class MadeUpRegistry : public DeviceRegistry {
 public:
  std::vector<Device> devices() override { return present; }
  bool is_software(Device device) override { return software.contains(device); }
  bool is_usable(Device device) override {
    opened.push_back(device);
    return !broken.contains(device);
  }

  std::vector<Device> present = {{DeviceKind::ref, 0}, {DeviceKind::cpu, 0}};
  std::set<Device> software, broken;
  std::vector<Device> opened;
};

TEST(Device, EveryKindIsParsedAndPrintedByItsName) {
  ASSERT_GE(kDeviceKinds.size(), 5U);
  for (const DeviceKind kind : kDeviceKinds) {
    const std::string name(name_of(kind));
    EXPECT_EQ(Device::parse(name), (Device{kind, 0}));
    EXPECT_EQ(Device::parse(name + ":3"), (Device{kind, 3}));
    EXPECT_EQ((Device{kind, 0}).to_string(), is_host(kind) ? name : name + ":0");
    EXPECT_EQ((Device{kind, 12}).to_string(), name + ":12");
  }
}

TEST(Device, WhatNamesNoDeviceIsToldWithTheDevicesThatThereAre) {
  for (const char* const text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:12345", "CUDA", "cpu0", ":0"}) {
    try {
      Device::parse(text);
      ADD_FAILURE() << text;
    } catch (const DeviceError& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find("\"" + std::string(text) + "\" names no device"), std::string::npos) << what;
      EXPECT_NE(what.find("devices present: ref, cpu"), std::string::npos) << what;
    }
  }
}

TEST(Device, AllBeginsWithTheHostsDevices) {
  const std::vector<Device> all = Device::all();
  ASSERT_GE(all.size(), 2U);
  EXPECT_EQ(all[0], (Device{DeviceKind::ref, 0}));
  EXPECT_EQ(all[1], (Device{DeviceKind::cpu, 0}));
}

TEST(Device, BestIsTheFirstGpuThatCanBeUsed) {
  const Device cuda{DeviceKind::cuda, 0};
  const Device second{DeviceKind::cuda, 1};
  const Device vulkan{DeviceKind::vulkan, 0};
  const Device metal{DeviceKind::metal, 0};
  MadeUpRegistry registry;
  EXPECT_EQ(best_of(registry), (Device{DeviceKind::cpu, 0}));
  registry.present.insert(registry.present.end(), {cuda, second, vulkan, metal});
  EXPECT_EQ(best_of(registry), cuda);
  registry.broken = {cuda};
  EXPECT_EQ(best_of(registry), second);
  registry.broken = {cuda, second};
  registry.software = {vulkan};
  registry.opened.clear();
  EXPECT_EQ(best_of(registry), metal);
  EXPECT_EQ(registry.opened, (std::vector<Device>{cuda, second, metal})) << "one in software is not even opened";
  registry.broken.insert(metal);
  EXPECT_EQ(best_of(registry), (Device{DeviceKind::cpu, 0}));
}

TEST(Device, NamesStandInTheOrderOfTheRegistry) {
  MadeUpRegistry registry;
  registry.present.push_back({DeviceKind::vulkan, 1});
  EXPECT_EQ(names_of_devices(registry), "ref, cpu, vulkan:1");
}

}  // namespace
}  // namespace lockstep
