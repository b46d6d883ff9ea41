#include "core/os_confined.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/checked.h"
#include "support/files.h"

namespace lockstep::os {
namespace {

using lockstep::test::message_of;
using lockstep::test::TemporaryFolder;

std::string refusal_of(const TemporaryFolder& folder, std::string_view name) {
  return message_of<IoError>([&] { map_confined_file(folder.path("inside"), name); });
}

TEST(ConfinedFile, LiesBelowTheFolder) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("inside/deep"));
  folder.write("inside/deep/data", "abc");
  EXPECT_EQ(text_of(map_confined_file(folder.path("inside"), "deep/data").bytes), "abc");
  folder.write("inside/empty", "");
  EXPECT_TRUE(map_confined_file(folder.path("inside"), "empty").bytes.empty());
}

TEST(ConfinedFile, NoNameLeadsOut) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("inside/deep"));
  folder.write("outside", "abc");
  using namespace std::string_view_literals;
  for (const std::string_view name : {""sv, "../outside"sv, "deep/../../outside"sv, "./deep"sv, "deep//x"sv, "deep/"sv,
                                      "/etc/passwd"sv, "a\0b"sv, "deep"sv, "nobody"sv}) {
    EXPECT_NE(refusal_of(folder, name), "no error") << name;
  }
}

TEST(ConfinedFile, NoLinkLeadsOut) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("inside"));
  folder.write("outside", "abc");
  std::filesystem::create_symlink(folder.path("outside"), folder.path("inside/soft"));
  std::filesystem::create_symlink(folder.path("."), folder.path("inside/up"));
  std::filesystem::create_hard_link(folder.path("outside"), folder.path("inside/hard"));
  EXPECT_NE(refusal_of(folder, "soft").find("symbolic link"), std::string::npos);
  EXPECT_NE(refusal_of(folder, "up/outside"), "no error");
  EXPECT_NE(refusal_of(folder, "hard").find("more than one name"), std::string::npos);
}

// As a hub's cache is made: links to contents in a folder beside.
TEST(ConfinedFile, LinksMayLeadBelowARoot) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("root/inside/deep"));
  std::filesystem::create_directories(folder.path("root/blobs"));
  folder.write("outside", "abc");
  folder.write("root/blobs/content", "def");
  std::filesystem::create_symlink("../blobs/content", folder.path("root/inside/soft"));
  std::filesystem::create_directory_symlink("../blobs", folder.path("root/inside/blobs"));
  std::filesystem::create_symlink("../../outside", folder.path("root/inside/out"));
  std::filesystem::create_symlink("nobody", folder.path("root/inside/broken"));
  std::filesystem::create_symlink("loop", folder.path("root/inside/loop"));
  const auto text = [&](const std::string& name) {
    return std::string(text_of(map_confined_file(folder.path("root/inside"), name, folder.path("root")).bytes));
  };
  EXPECT_EQ(text("soft"), "def");
  EXPECT_EQ(text("blobs/content"), "def");
  EXPECT_NE(message_of<IoError>([&] { text("out"); }).find("does not lead below"), std::string::npos);
  for (const std::string name : {"broken", "loop", "../blobs/content", "nobody", "blobs"}) {
    EXPECT_NE(message_of<IoError>([&] { text(name); }), "no error") << name;
  }
  std::filesystem::create_hard_link(folder.path("outside"), folder.path("root/blobs/hard"));
  std::filesystem::create_symlink("../blobs/hard", folder.path("root/inside/hard"));
  EXPECT_NE(message_of<IoError>([&] { text("hard"); }).find("more than one name"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::os
