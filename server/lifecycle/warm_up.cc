#include "server/lifecycle/warm_up.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/image/image.h"
#include "engine/image/row_source.h"
#include "engine/pipeline/upscaler.h"

namespace upscaled::server {
namespace {

constexpr int kPicturePx = 64;

// The native scale's variant without denoising, or with the least there is.
const ModelVariant& WarmVariant(const ModelCard& card) {
  const int scale = NativeScale(card);
  if (const ModelVariant* plain = card.Find(scale, kNoDenoise)) return *plain;
  return *std::find_if(card.variants.begin(), card.variants.end(),
                       [scale](const ModelVariant& variant) { return variant.scale == scale; });
}

// A picture of nothing but gray.
class GrayRows final : public RowSource {
 public:
  const ImageSpec& spec() const override { return spec_; }
  absl::Status ReadRows(MutableImageView rows) override {
    for (int y = 0; y < rows.height_px(); ++y) std::memset(rows.row(y), 128, rows.spec.row_bytes());
    return absl::OkStatus();
  }

 private:
  const ImageSpec spec_{kPicturePx, kPicturePx, 3, SampleType::kU8};
};

absl::Status Run(const HandlerEnvironment& environment, const ModelCard& card) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Executable> executable,
                   environment.models.Get(card, WarmVariant(card), environment.default_precision));
  // What every server needs, whatever its clients do.
  RETURN_IF_ERROR(environment.admission
                      .Reserve({.scratch_bytes = ScratchBytes(environment, *executable,
                                                              executable->PreferredTile())})
                      .status());
  GrayRows picture;
  const int scale = executable->network().scale;
  const Size result{kPicturePx * scale, kPicturePx * scale};
  ASSIGN_OR_RETURN(const UpscalePlan plan,
                   PlanUpscale(picture.spec(), result, {std::move(executable)}, {}));
  const TileScheduler::Request request = environment.scheduler.OpenRequest();
  Image pixels(plan.result);
  return MakeUpscaler(plan, picture, environment.scheduler, request.id(), nullptr)
      ->ReadRows(pixels.mutable_view());
}

}  // namespace

absl::Status RunWarmUp(const HandlerEnvironment& environment) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const CatalogEntry> model, environment.catalog.Find(""));
  const absl::Status status = Run(environment, *model->card);
  if (status.ok()) return status;
  return absl::Status(
      status.code(), absl::StrCat("model ", model->card->name, " does not run on ",
                                  std::string(environment.backend.name()), ": ", status.message()));
}

}  // namespace upscaled::server
