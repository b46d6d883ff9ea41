#include "train/stroke_font.h"

#include <map>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace train {
namespace {

// Two digits a point, a space between the points of a line, a bar between lines.
const std::map<char, std::string_view>& font() {
  static const auto& table = *new std::map<char, std::string_view>{
      {' ', ""},
      {'0', "10 30 41 45 36 16 05 01 10"},
      {'1', "11 20 26|16 36"},
      {'2', "01 10 30 41 42 06 46"},
      {'3', "01 10 30 41 42 33 44 45 36 16 05|13 33"},
      {'4', "36 30 04 44"},
      {'5', "40 00 03 33 44 45 36 16 05"},
      {'6', "40 20 02 05 16 36 45 44 33 03"},
      {'7', "00 40 16"},
      {'8', "10 30 41 42 33 13 02 01 10|13 04 05 16 36 45 44 33"},
      {'9', "43 13 02 01 10 30 41 44 26 06"},
      {'.', "16 26"},
      {',', "25 26 17"},
      {':', "22 23|25 26"},
      {'-', "14 34"},
      {'+', "04 44|22 26"},
      {'_', "07 47"},
      {'/', "07 40"},
      {'%', "06 40|00 10 11 01 00|35 45 46 36 35"},
      {'(', "30 12 15 37"},
      {')', "10 32 35 17"},
      {'=', "03 43|05 45"},
      {'a', "12 32 43 46|44 14 05 16 36 45"},
      {'b', "00 06|03 12 32 43 45 36 16 05"},
      {'c', "42 12 03 05 16 46"},
      {'d', "40 46|43 32 12 03 05 16 36 45"},
      {'e', "04 44 43 32 12 03 05 16 46"},
      {'f', "40 30 21 26|12 42"},
      {'g', "42 47 38 08|43 32 12 03 05 16 36 45"},
      {'h', "00 06|03 12 32 43 46"},
      {'i', "12 22 26|16 36|20 21"},
      {'j', "22 32 37 28 18|30 31"},
      {'k', "00 06|42 04 46"},
      {'l', "10 20 26|16 36"},
      {'m', "02 06|03 12 23 26|23 32 43 46"},
      {'n', "02 06|03 12 32 43 46"},
      {'o', "12 32 43 45 36 16 05 03 12"},
      {'p', "02 08|03 12 32 43 45 36 16 05"},
      {'q', "42 48|43 32 12 03 05 16 36 45"},
      {'r', "02 06|04 22 42"},
      {'s', "42 12 03 14 34 45 36 06"},
      {'t', "20 25 36 46|02 42"},
      {'u', "02 05 16 36 45|42 46"},
      {'v', "02 26 42"},
      {'w', "02 16 23 36 42"},
      {'x', "02 46|42 06"},
      {'y', "02 26|42 26 18 08"},
      {'z', "02 42 06 46"},
  };
  return table;
}

}  // namespace

std::vector<std::vector<GridPoint>> glyph(char letter) {
  if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  const auto found = font().find(letter);
  const std::string_view code = found == font().end() ? "01 41 46 06 01" : found->second;
  std::vector<std::vector<GridPoint>> lines;
  for (std::size_t i = 0; i + 1 < code.size(); i += 3) {
    if (i == 0 || code[i - 1] == '|') lines.emplace_back();
    lines.back().emplace_back(code[i] - '0', code[i + 1] - '0');
  }
  return lines;
}

}  // namespace train
}  // namespace v0
}  // namespace lockstep
