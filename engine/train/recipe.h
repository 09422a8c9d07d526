// How training makes a small image from a large one: the ways to reduce it, and the damage to the
// result.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/train/reduce.h"

namespace upscaled::train {

// Done to some patches, as strongly as is drawn from a range.
struct Degradation {
  double share = 0;  // of the patches
  double min = 0, max = 0;
};

struct Recipe {
  // Each patch's is drawn from these, in the order of kReductions.
  std::vector<Reduction> reductions = {Reduction::kBox, Reduction::kBicubic, Reduction::kLanczos};
  bool exchange_colours = true;
  // Happen in this order.
  Degradation blur;                // Gaussian; sigma in pixels of the small image
  Degradation noise;               // Gaussian; sigma in levels of 0..255
  Degradation chroma_subsampling;  // to half on both axes (4:2:0); it has no strength
  Degradation jpeg;                // quality; below 90 of half the chroma, as the codec has it
};

inline constexpr double kMaxBlurSigmaPx = 4;

// Reads a JSON object; missing fields keep the defaults of Recipe:
//
//   {"reductions": ["box", "lanczos_linear"], "exchange_colours": false,
//    "blur": {"share": 0.2, "sigma_px": [0.3, 0.9]}, "noise": {"share": 0.2, "sigma": [0.5, 4]},
//    "chroma_subsampling": {"share": 0.1}, "jpeg": {"share": 0.5, "quality": [60, 95]}}
//
// NOT_FOUND: there is no such file; INVALID_ARGUMENT names file, key, value and limit.
absl::StatusOr<Recipe> ReadRecipe(const std::filesystem::path& file);

// A line of JSON for ReadRecipe.
std::string RecipeText(const Recipe& recipe);

}  // namespace upscaled::train
