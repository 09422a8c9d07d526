#include "engine/model/architectures/planes.h"

#include <utility>
#include <vector>

#include "engine/model/architectures/luma.h"

namespace upscaled {
namespace {

constexpr int64_t kRgbaPlanes = 4;

// A 1x1 convolution to keep the planes of both sides; the others are `rest`.
int KeepPlanes(NetworkBuilder& builder, int input, const char* name, int from, int to, float rest) {
  Layer conv{.name = name};
  conv.weights.assign(size_t{1} * from * to, 0.0f);
  conv.bias.assign(to, 0.0f);
  for (int plane = 0; plane < to; ++plane) {
    if (plane < from) conv.weights[plane * from + plane] = 1;
    if (plane >= from) conv.bias[plane] = rest;
  }
  return builder.Conv(input, std::move(conv));
}

}  // namespace

int PlanesOf(NetworkBuilder& builder, int image, int64_t planes) {
  if (planes == 1) return Luma(builder, image);
  return planes == kRgbaPlanes ? KeepPlanes(builder, image, "opaque", 3, 4, 1.0f) : image;
}

int RgbOf(NetworkBuilder& builder, int image, int result, int64_t planes, int scale) {
  if (planes == 1) return WithColour(builder, image, result, scale);
  return planes == kRgbaPlanes ? KeepPlanes(builder, result, "rgb", 4, 3, 0.0f) : result;
}

}  // namespace upscaled
