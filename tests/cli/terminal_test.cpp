#include "cli/terminal.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(Printable, KeepsTextOfEveryLanguage) {
  const std::string text = "Z\xc3\xbcrich \xe4\xba\xac \xf0\x9f\x8e\x88";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable_lines("a\nb\tc"), "a\nb\tc");
  EXPECT_EQ(printable("a\nb\tc"), "a?b?c");
}

TEST(Printable, ReplacesWhatTerminalsObey) {
  EXPECT_EQ(printable("\x1b[2J"), "?[2J");
  EXPECT_EQ(printable("\x9b" "2J"), "?2J");          // CSI as one byte
  EXPECT_EQ(printable("\xc2\x9b" "2J"), "?2J");      // and as a character
  EXPECT_EQ(printable_lines("\x9b" "2J\n"), "?2J\n");
  EXPECT_EQ(printable("gpj\xe2\x80\xae.exe"), "gpj?.exe");  // from right to left
}

TEST(Printable, ReplacesBytesThatAreNoText) {
  for (const char* wrong : {"\xff", "\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe4\xba",
                            "\xf0\x9f\x8e"}) {
    const std::string shown = printable(wrong);
    EXPECT_EQ(shown, std::string(shown.size(), '?')) << wrong;
  }
  EXPECT_EQ(printable("a\xe4\xba" "b"), "a??b");
}

std::vector<std::string> lines_of(std::size_t columns) {
  Table table;
  table.add({{"layer3.0.bn2.running_var"}, {"f32"}, {"[64]"}, {"256 B", nullptr, true}});
  table.add({{"conv1.weight"}, {"f16"}, {"[16, 3, 3, 3]"}, {"864 B", nullptr, true}});
  return table.lines(Style(), "  ", columns);
}

TEST(Tables, AreWholeWhereThereIsRoom) {
  const std::vector<std::string> whole{"  layer3.0.bn2.running_var  f32  [64]           256 B",
                                       "  conv1.weight              f16  [16, 3, 3, 3]  864 B"};
  EXPECT_EQ(lines_of(0), whole);
  EXPECT_EQ(lines_of(60), whole);
  EXPECT_EQ(lines_of(53), whole);
}

TEST(Tables, GoOnInTheNextLineOfANarrowTerminal) {
  EXPECT_EQ(lines_of(52), (std::vector<std::string>{"  layer3.0.bn2.running_var  f32  [64]", "      256 B",
                                                    "  conv1.weight              f16  [16, 3, 3, 3]", "      864 B"}));
  EXPECT_EQ(lines_of(40), (std::vector<std::string>{"  layer3.0.bn2.running_var  f32", "      [64]           256 B",
                                                    "  conv1.weight              f16", "      [16, 3, 3, 3]  864 B"}));
  for (const std::size_t columns : {10, 20, 25, 30, 40, 50, 60}) {
    for (const std::string& line : lines_of(columns)) {
      std::size_t width = 0;
      for (const char c : line) width += (c & 0xc0) != 0x80 ? 1 : 0;
      EXPECT_LE(width, std::max<std::size_t>(columns, 14)) << line;
    }
  }
}

TEST(Tables, CutALongCellInItsMiddle) {
  Table table;
  table.add({{"encoder.layers.11.attention.self.query.weight"}});
  table.add({{std::string(60, 'x')}});
  EXPECT_EQ(table.lines(Style(), "", 24)[0], "encoder.l\xe2\x80\xa6" "ery.weight");
  Table wide;
  std::string text;
  for (int i = 0; i < 30; ++i) text += "\xe4\xba\xac";
  wide.add({{text}});
  EXPECT_EQ(printable(wide.lines(Style(), "", 24)[0]), wide.lines(Style(), "", 24)[0]) << "no character is cut in two";
}

}  // namespace
}  // namespace lockstep::cli
