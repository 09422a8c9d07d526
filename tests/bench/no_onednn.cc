// In place of onednn.cc where oneDNN was not found.
#include "tests/bench/onednn.h"

namespace upscaled::bench {
namespace {

absl::Status NotBuilt() { return absl::UnimplementedError("this build has no oneDNN"); }

}  // namespace

bool HasOnednn() { return false; }

absl::StatusOr<std::function<void()>> MakeOnednnLayer(const Layer& /*layer*/, Size /*output*/,
                                                      OnednnVariant /*variant*/) {
  return NotBuilt();
}

absl::StatusOr<std::function<void()>> MakeOnednnNetwork(const Network& /*network*/,
                                                        const ImageView& /*source*/, Size /*tile*/,
                                                        OnednnVariant /*variant*/) {
  return NotBuilt();
}

train::ProductFunction<float> OnednnProduct() { return nullptr; }

}  // namespace upscaled::bench
