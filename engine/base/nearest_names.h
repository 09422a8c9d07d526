// Advice for a name that does not exist.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace upscaled {

// A word that users bring from other programs, in the singular, and our name for the same.
struct OthersWord {
  std::string_view word, name;
};

// Up to three of `names` that the user may have meant by `name`: spelled almost alike ("thread"),
// with a word in common ("models" and "model-repository"), or for the same purpose by one of
// `others`. Empty if no name is near. Hyphens separate words.
std::vector<std::string> NearestNames(std::string_view name, std::span<const std::string> names,
                                      std::span<const OthersWord> others = {});

}  // namespace upscaled
