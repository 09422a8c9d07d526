#include "server/lifecycle/warm_up.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/base/status_macros.h"
#include "engine/image/image.h"

namespace upscaled::server {
namespace {

constexpr int kTilePx = 64;

// The native scale's variant without denoising, or with the least there is.
const ModelVariant& WarmVariant(const ModelCard& card) {
  const int scale = NativeScale(card);
  if (const ModelVariant* plain = card.Find(scale, kNoDenoise)) return *plain;
  return *std::find_if(card.variants.begin(), card.variants.end(),
                       [scale](const ModelVariant& variant) { return variant.scale == scale; });
}

}  // namespace

absl::Status RunWarmUp(const HandlerEnvironment& environment) {
  ASSIGN_OR_RETURN(const CatalogEntry* model, environment.catalog.Find(""));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Executable> executable,
                   environment.models.Get(*model->card, WarmVariant(*model->card),
                                          environment.default_precision));
  const int scale = executable->network().scale;
  Image src({kTilePx, kTilePx, 3, SampleType::kU8});
  Image dst({kTilePx * scale, kTilePx * scale, 3, SampleType::kU8});
  std::memset(src.mutable_view().data, 128, src.bytes());

  const Rect whole{0, 0, kTilePx, kTilePx};
  const TileScheduler::Request request = environment.scheduler.OpenRequest();
  absl::Status outcome;
  absl::Notification done;
  environment.scheduler.Submit(request.id(), executable,
                               {{.src = src.view(),
                                 .src_rect = whole,
                                 .image = {kTilePx, kTilePx},
                                 .tile = whole,
                                 .dst = dst.mutable_view()}},
                               nullptr, [&](size_t, const absl::Status& status) {
                                 outcome = status;
                                 done.Notify();
                               });
  done.WaitForNotification();
  if (outcome.ok()) return outcome;
  return absl::Status(outcome.code(), absl::StrCat("model ", model->card->name, " does not run on ",
                                                   std::string(environment.backend.name()), ": ",
                                                   outcome.message()));
}

}  // namespace upscaled::server
