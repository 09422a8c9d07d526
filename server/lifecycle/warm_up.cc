#include "server/lifecycle/warm_up.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/image.h"
#include "engine/pipeline/image_run.h"

namespace upscaled::server {
namespace {

constexpr Size kImage = {64, 64};

// The whole image, all gray, as one tile.
absl::Status RunGray(Stream& stream, const Executable& executable) {
  const Size result = {kImage.width * executable.network().scale,
                       kImage.height * executable.network().scale};
  Image src({kImage.width, kImage.height, 3, SampleType::kU8});
  Image dst({result.width, result.height, 3, SampleType::kU8});
  for (int y = 0; y < kImage.height; ++y) {
    std::memset(src.mutable_view().row(y), 128, src.spec().row_bytes());
  }
  ImageRun run(executable, CutImage(executable, src.view(), dst.mutable_view(), kImage));
  return run.Run([&](std::span<const TileTask> tiles) { return stream.Run(executable, tiles); });
}

absl::Status Run(Device& device, const CatalogEntry& model) try {
  const ModelVariant& variant = WarmVariant(*model.card);
  auto executable = device.models().Get(*model.card, variant, model.default_precision);
  if (absl::IsUnimplemented(executable.status())) {
    executable = device.models().Get(*model.card, variant, Precision::kExact);
  }
  RETURN_IF_ERROR(executable.status());
  return RunGray(*device.backend().CreateStream(), **executable);
} catch (const std::bad_alloc&) {
  return absl::ResourceExhaustedError("out of memory");
} catch (const std::exception& error) {
  return absl::InternalError(error.what());
}

}  // namespace

const ModelVariant& WarmVariant(const ModelCard& card) {
  const int scale = NativeScale(card);
  if (const ModelVariant* plain = card.Find(scale, kNoDenoise)) return *plain;
  return *std::find_if(card.variants.begin(), card.variants.end(),
                       [scale](const ModelVariant& variant) { return variant.scale == scale; });
}

absl::Status WarmUpDevice(Device& device, const CatalogEntry& model) {
  const absl::Status status = Run(device, model);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("model ", model.card->name, " does not run on ",
                                                  device.name(), ": ", status.message()));
}

}  // namespace upscaled::server
