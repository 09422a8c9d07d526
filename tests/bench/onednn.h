// The peer: convolutions as oneDNN runs them, on the same shapes, single threaded.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/base/geometry.h"
#include "engine/image/image.h"
#include "engine/model/network.h"
#include "engine/train/kernels/product.h"

namespace upscaled::bench {

enum class OnednnVariant : uint8_t {
  kDirect,    // fp32
  kWinograd,  // fp32, F(4x4, 3x3); in networks where that is there and faster, else direct
  kInt8,      // 8-bit activations and weights; the values mean nothing, the speed does
};
inline constexpr OnednnVariant kOnednnVariants[] = {OnednnVariant::kDirect,
                                                    OnednnVariant::kWinograd, OnednnVariant::kInt8};

constexpr std::string_view OnednnName(OnednnVariant variant) {
  switch (variant) {
    case OnednnVariant::kDirect:
      return "oneDNN direct";
    case OnednnVariant::kWinograd:
      return "oneDNN winograd";
    case OnednnVariant::kInt8:
      return "oneDNN int8";
  }
  return "oneDNN";
}
constexpr std::string_view OnednnPrecision(OnednnVariant variant) {
  return variant == OnednnVariant::kInt8 ? "int8" : "exact";
}

// Whether this build has oneDNN; without it everything below is UNIMPLEMENTED. Each primitive has
// run once; INTERNAL has the text of oneDNN's exception.
bool HasOnednn();

// One layer from its input to an output of this size, both in oneDNN's preferred layouts,
// activation fused. UNIMPLEMENTED: not a convolution, or not by this algorithm.
absl::StatusOr<std::function<void()>> MakeOnednnLayer(const Layer& layer, Size output,
                                                      OnednnVariant variant);

// 8-bit RGB to 8-bit RGB: the convolutions of a network, one after the other, in tiles of at most
// `tile` source pixels. Other layers (pixel shuffle, skips, crops) are left out, in oneDNN's
// favour; enlarging and padding the source is not. `source` must outlive it.
absl::StatusOr<std::function<void()>> MakeOnednnNetwork(const Network& network,
                                                        const ImageView& source, Size tile,
                                                        OnednnVariant variant);

// A matrix product of the calling thread; null without oneDNN.
train::ProductFunction<float> OnednnProduct();

}  // namespace upscaled::bench
