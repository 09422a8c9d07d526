// Linear interpolation of an image at `factor` times its size, half-pixel centres.
#pragma once

namespace upscaled {

// Where a sample of the enlarged grid lies between two of the source.
struct LinearPhase {
  int first;         // the source sample before it, relative to the one that it belongs to: -1 or 0
  int second_parts;  // of 2 * factor: the weight of the sample after `first`
};

// `index` is the sample's place within its source sample: 0 to factor - 1.
constexpr LinearPhase LinearPhaseOf(int index, int factor) {
  const int offset = 2 * index + 1 - factor;  // from the source sample's centre, in parts
  return offset < 0 ? LinearPhase{-1, 2 * factor + offset} : LinearPhase{0, offset};
}

}  // namespace upscaled
