// The loops of KeptColours over the samples of a row, as vectors. Private to kept_colours.cc.
//
// All instruction sets give the same bytes: sums run in one order, and no product is fused with a
// sum. Vectors may go past a row's end, so rows of floats have kRowPaddingFloats behind it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace upscaled {

inline constexpr size_t kRowPaddingFloats = 16;
// The Gaussian, cut off at three times its sigma.
inline constexpr int kKeptColoursRadiusPx = 6;
// Half a Gaussian, from its middle on.
using HalfGaussian = std::array<float, kKeptColoursRadiusPx + 1>;
// The rows that a smoothed one is made of, from its middle on.
using SmoothedRows = std::array<const float*, kKeptColoursRadiusPx + 1>;

// smoothed[i] = gaussian[0] * before[0][i] + sum of gaussian[k] * (before[k][i] + behind[k][i]).
void SmoothRow(const HalfGaussian& gaussian, const SmoothedRows& before, const SmoothedRows& behind,
               size_t count, float* smoothed);

// sums[i] += samples[i], of `count` samples.
void AddSamples(const uint16_t* samples, size_t count, uint32_t* sums);

// mixed[i] = first[i] + second_weight * (second[i] - first[i]).
void MixRows(const float* first, const float* second, float second_weight, size_t count,
             float* mixed);

// The place of a result's column within its source column: between two pixels of the source.
struct ColumnPhase {
  int first_float;      // of the pixel before it, from the source column's own first one
  float second_weight;  // of the pixel behind it
};

// Interpolates pixels of RGB: `width` times one for each phase, with `channels` floats each. The
// fourth becomes 0. `rgb` has a pixel more at both ends.
void EnlargeRow(const float* rgb, int width, std::span<const ColumnPhase> phases, int channels,
                float* enlarged);

// dst[i] = src[i] + correction[i], rounded and clamped to 0..65535.
void CorrectRow(const uint16_t* src, const float* correction, size_t count, uint16_t* dst);

}  // namespace upscaled
