#include "core/os.h"
#include "core/os_pages.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/error.h>

#include "support/failing_calls.h"
#include "support/files.h"

namespace lockstep::os {
namespace {

using test::FailingCalls;
using test::message_of;
using test::read_whole_file;
using test::TemporaryFolder;

std::string text_of(const FileBytes& file) {
  return {reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()};
}

void write_atomically(const std::string& path, std::string_view text, SystemCalls& calls = system_calls()) {
  AtomicFile file(path, calls);
  file.write(text);
  file.commit();
}

TEST(Files, MappedAndReadAreTheSame) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "content");
  EXPECT_EQ(text_of(map_file(path)), "content");
  EXPECT_EQ(text_of(read_file(path)), "content");
  EXPECT_EQ(text_of(map_file(folder.write("empty", ""))), "");
  EXPECT_EQ(text_of(read_file(folder.path("empty"))), "");
}

TEST(Files, MappingOutlivesTheFile) {
  const TemporaryFolder folder;
  FileBytes file = map_file(folder.write("file", "content"));
  std::filesystem::remove(folder.path("file"));
  EXPECT_EQ(text_of(file), "content");
}

TEST(Files, MappedPagesThatAreLeftComeBack) {
  const TemporaryFolder folder;
  std::string text(100'000, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 26);
  const FileBytes file = map_file(folder.write("file", text));
  EXPECT_EQ(text_of(file), text);
  leave_mapped_pages(file.bytes.subspan(100, 90'000));
  leave_mapped_pages(file.bytes.subspan(5000, 10));  // within a page: nothing to leave
  EXPECT_EQ(text_of(file), text);
  const FileBytes read = read_file(folder.path("file"));
  leave_mapped_pages(read.bytes);  // no mapping
  EXPECT_EQ(text_of(read), text);
}

TEST(Files, ErrorsNameTheFileAndTheReason) {
  const TemporaryFolder folder;
  const std::string missing = folder.path("missing");
  EXPECT_EQ(message_of<IoError>([&] { map_file(missing); }),
            missing + ": cannot open the file: No such file or directory");
  const std::string directory = folder.path("");
  EXPECT_EQ(message_of<IoError>([&] { read_file(directory); }), directory + ": is a directory, not a regular file");
}

TEST(Files, APipeIsRefusedAndDoesNotHang) {
  const TemporaryFolder folder;
  const std::string pipe = folder.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(message_of<IoError>([&] { map_file(pipe); }), pipe + ": is a device or pipe, not a regular file");
  EXPECT_THROW(map_file("/dev/zero"), IoError);
}

TEST(Files, EveryFailingCallOfAReadIsAnIoError) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "content");
  for (const int error : {EIO, ENOMEM, EINTR, 0}) {
    for (int k = 0;; ++k) {
      FailingCalls calls(k, error);
      std::string text;
      try {
        text = text_of(read_file(path, calls));
        EXPECT_EQ(text, "content") << calls.failed_call();
      } catch (const IoError&) {
        EXPECT_TRUE(calls.failed() && error != 0 && calls.failed_call() != "close");
      }
      if (!calls.failed()) break;
      ASSERT_LT(k, 100);
    }
  }
  FailingCalls calls(2, ENOMEM);
  EXPECT_THROW(map_file(path, calls), IoError);
  EXPECT_EQ(calls.failed_call(), "mmap");
}

TEST(AtomicFile, ReplacesAndKeepsPermissions) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "old");
  ::chmod(path.c_str(), 0640);
  write_atomically(path, "new content");
  EXPECT_EQ(read_whole_file(path), "new content");
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0640u);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"file"});
}

TEST(AtomicFile, NewFilesFollowTheUmask) {
  const TemporaryFolder folder;
  const mode_t old = ::umask(022);
  write_atomically(folder.path("file"), "x");
  ::umask(old);
  struct stat info {};
  ASSERT_EQ(::stat(folder.path("file").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0644u);
}

TEST(AtomicFile, FollowsSymbolicLinks) {
  const TemporaryFolder folder;
  const std::string target = folder.write("target", "old");
  std::filesystem::create_symlink("target", folder.path("link"));
  write_atomically(folder.path("link"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link")));
  EXPECT_EQ(read_whole_file(target), "new");
}

TEST(AtomicFile, AbandonedLeavesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "old");
  {
    AtomicFile file(path);
    file.write("half of the");
    EXPECT_EQ(folder.names().size(), 2u);
  }
  EXPECT_EQ(read_whole_file(path), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"file"});
}

TEST(AtomicFile, RefusesDirectoriesAndMissingFolders) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_atomically(folder.path(""), "x"), IoError);
  EXPECT_THROW(write_atomically(folder.path("no/such/folder"), "x"), IoError);
  EXPECT_THROW(write_atomically("/dev/null", "x"), IoError);
  EXPECT_TRUE(folder.names().empty());
}

// For every call and every error: afterwards the file is old or new, whole, and nothing else lies in the folder. An
// error that was reported before the rename means the old file.
TEST(AtomicFile, EveryFailingCallLeavesOldOrNew) {
  for (const int error : {ENOSPC, EIO, EDQUOT, EINTR, 0}) {
    int sites = 0;
    for (int k = 0;; ++k) {
      const TemporaryFolder folder;
      const std::string path = folder.write("file", "old");
      FailingCalls calls(k, error);
      bool reported = false;
      try {
        write_atomically(path, "new content", calls);
      } catch (const IoError& e) {
        reported = true;
        EXPECT_NE(std::string(e.what()).find(path), std::string::npos) << e.what();
      }
      const std::string content = read_whole_file(path);
      const bool after_rename = calls.failed_call() == "fsync" || calls.failed_call() == "close";
      if (reported) {
        EXPECT_TRUE(content == "old" || (after_rename && content == "new content")) << calls.failed_call();
      } else {
        EXPECT_EQ(content, "new content") << calls.failed_call();
      }
      // A failure that loses data must have been reported.
      const bool harmless = error == EINTR || error == 0;
      if (calls.failed() && !harmless) {
        EXPECT_TRUE(reported) << calls.failed_call();
      }
      EXPECT_EQ(folder.names(), std::vector<std::string>{"file"}) << calls.failed_call();
      if (!calls.failed()) break;
      ++sites;
      ASSERT_LT(k, 100);
    }
    EXPECT_GE(sites, error == 0 ? 1 : 8);
  }
}

TEST(Directories, AreListedByName) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("b"));
  folder.write("c", "");
  folder.write(".a", "");
  std::filesystem::create_directory_symlink(folder.path("b"), folder.path("a"));
  std::vector<std::string> names;
  for (const DirectoryEntry& entry : list_directory(folder.path("."))) {
    names.push_back(entry.name + (entry.is_directory ? "/" : ""));
  }
  EXPECT_EQ(names, (std::vector<std::string>{".a", "a/", "b/", "c"}));
  EXPECT_TRUE(is_directory(folder.path("a")));
  EXPECT_FALSE(is_directory(folder.path("c")));
  EXPECT_FALSE(is_directory(folder.path("missing")));
  EXPECT_THROW(list_directory(folder.path("c")), IoError);
  EXPECT_THROW(list_directory(folder.path("missing")), IoError);
}

TEST(Directories, FilesAreRemoved) {
  const TemporaryFolder folder;
  remove_file(folder.write("a", "x"));
  EXPECT_TRUE(folder.names().empty());
  remove_file(folder.path("a"));  // is gone already
  std::filesystem::create_directory(folder.path("b"));
  EXPECT_THROW(remove_file(folder.path("b")), IoError);
}

TEST(Directories, SayWhyTheyCannotBeMade) {
  const TemporaryFolder folder;
  make_directories(folder.path("a/b/c"));
  make_directories(folder.path("a/b/c"));
  EXPECT_TRUE(is_directory(folder.path("a/b/c")));
  const std::string path = folder.write("file", "") + "/d";
  EXPECT_EQ(test::message_of<IoError>([&] { make_directories(path); }),
            path + ": cannot create the folder: Not a directory");
}

TEST(FileLocks, AreOfOneAtATime) {
  const TemporaryFolder folder;
  const std::string path = folder.path("lock");
  std::optional<FileLock> first = FileLock::take(path);
  ASSERT_TRUE(first);
  EXPECT_EQ(read_whole_file(path), std::to_string(::getpid()) + "\n");
  EXPECT_FALSE(FileLock::take(path));
  FileLock moved = std::move(*first);
  first.reset();
  EXPECT_FALSE(FileLock::take(path)) << "a lock that was moved is held still";
  { const FileLock gone = std::move(moved); }
  EXPECT_TRUE(FileLock::take(path));
  EXPECT_THROW(FileLock::take(folder.path("no/such/folder")), IoError);
}

TEST(FileLocks, EndWithTheProcess) {
  const TemporaryFolder folder;
  const std::string path = folder.path("lock");
  const pid_t child = ::fork();
  if (child == 0) {
    const std::optional<FileLock> lock = FileLock::take(path);
    ::_exit(lock ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(FileLock::take(path));
}

// Of a process that is not seen here, as in another container: no process has that number, and yet somebody writes.
TEST(AtomicFile, TemporariesThatSomebodyWritesStay) {
  const TemporaryFolder folder;
  constexpr const char* kName = ".lockstep-999999999-0.tmp";
  const std::string path = folder.write(kName, "half");
  {
    const std::optional<FileLock> writer = FileLock::take(path);
    remove_abandoned_temporaries(folder.path("."));
    EXPECT_EQ(folder.names(), std::vector<std::string>{kName});
  }
  remove_abandoned_temporaries(folder.path("."));
  EXPECT_TRUE(folder.names().empty());
}

TEST(AtomicFile, LocksItsTemporary) {
  const TemporaryFolder folder;
  AtomicFile file(folder.path("a"));
  const std::vector<std::string> names = folder.names();
  ASSERT_EQ(names.size(), 1u);
  EXPECT_FALSE(FileLock::take(folder.path(names[0])));
}

TEST(StopRequests, RememberTheFirstSignalAndLeaveTheSecondToTheSystem) {
  EXPECT_EXIT(
      {
        const StopRequest stop("notice\n");
        if (stop.signal() != 0) ::_exit(1);
        ::raise(SIGTERM);
        if (stop.signal() != SIGTERM) ::_exit(2);
        ::raise(SIGINT);
        ::_exit(3);
      },
      testing::KilledBySignal(SIGINT), "notice");
  EXPECT_EXIT(
      {
        { const StopRequest stop("notice\n"); }
        ::raise(SIGINT);
        ::_exit(3);
      },
      testing::KilledBySignal(SIGINT), "");
  EXPECT_EXIT(
      {
        std::signal(SIGINT, SIG_IGN);
        const StopRequest stop("notice\n");
        ::raise(SIGINT);
        ::_exit(stop.signal());
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        std::signal(SIGINT, SIG_IGN);
        const StopRequest stop("notice\n");
        ::raise(SIGTERM);
        ::raise(SIGINT);  // ignored still
        ::_exit(stop.signal() == SIGTERM ? 0 : 1);
      },
      testing::ExitedWithCode(0), "notice");
}

TEST(System, KnowsItsMemory) {
  EXPECT_GT(resident_bytes(), 1u << 20);
  EXPECT_GT(physical_memory_bytes(), resident_bytes());
  EXPECT_LE(available_memory_bytes(), physical_memory_bytes());
}

}  // namespace
}  // namespace lockstep::os
