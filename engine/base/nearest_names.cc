#include "engine/base/nearest_names.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/string_view.h"

namespace upscaled {
namespace {

using Words = std::set<std::string>;

constexpr size_t kMost = 3;

// Words of too many settings to tell anything.
constexpr std::string_view kCommonWords[] = {"max",  "min",  "default", "byte", "dir",
                                             "file", "path", "folder",  "size"};

// The words of a name, in the singular.
Words WordsOf(std::string_view name) {
  Words words;
  for (const absl::string_view part : absl::StrSplit(ToAbsl(name), '-', absl::SkipEmpty())) {
    const std::string word(absl::StripSuffix(part, "s"));
    if (std::ranges::find(kCommonWords, word) == std::end(kCommonWords)) words.insert(word);
  }
  return words;
}

// Levenshtein's distance.
size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

// How many of a name's words are another's, or mean it.
size_t SharedWords(const Words& words, std::string_view other, std::span<const OthersWord> others) {
  const Words own = WordsOf(other);
  return std::ranges::count_if(words, [&](const std::string& word) {
    return own.contains(word) || std::ranges::any_of(others, [&](const OthersWord& known) {
             return known.word == word && known.name == other;
           });
  });
}

}  // namespace

std::vector<std::string> NearestNames(std::string_view name, std::span<const std::string> names,
                                      std::span<const OthersWord> others) {
  const auto distance = [&](std::string_view other) { return EditDistance(name, other); };
  const auto nearest = std::ranges::min_element(names, {}, distance);
  if (nearest != names.end() && distance(*nearest) <= std::max<size_t>(1, (name.size() + 1) / 3)) {
    return {*nearest};
  }
  const Words words = WordsOf(name);
  size_t most_shared = 1;
  std::vector<std::string> found;
  for (const std::string& other : names) {
    const size_t shared = SharedWords(words, other, others);
    if (shared > most_shared) found.clear();
    if (shared < most_shared) continue;
    most_shared = shared;
    found.push_back(other);
  }
  found.resize(std::min(found.size(), kMost));
  return found;
}

}  // namespace upscaled
