// Colour profiles made with Little CMS, and their colours, worked out by hand.
#pragma once

#include <array>
#include <string>

namespace upscaled::test {

// A press with L*, a* and b* affine in the inks.
std::string CmykProfile();

// sRGB, with all the tags of a display's profile.
std::string SrgbProfile();

// The sRGB colour, 0..255, of inks in 0..1 under CmykProfile.
std::array<double, 3> SrgbOfInks(double cyan, double magenta, double yellow, double key);

// The tested part of a profile.
struct ProfileSummary {
  bool gray = false;
  std::array<double, 3> light = {};      // of the first channel's samples at 1/4, 1/2, 3/4
  std::array<double, 6> primaries = {};  // x, y of red, green, blue, adapted to D50
};
ProfileSummary Summarize(const std::string& icc_profile);

}  // namespace upscaled::test
