#include "engine/train/model_folder.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/str_format.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/model/model_card.h"
#include "engine/model/ncnn_exporter.h"

namespace upscaled::train {
namespace {

constexpr char kCard[] = R"(# %s

Fine-tuned from %s, version %d, on images of one's own by `upscale-train`.

| | |
| --- | --- |
| images | %s: %d trained on, %d held out |
| steps | %d |
| settings | %s |

Held-out images, made small by the recipe; PSNR of RGB in dB, mean over images and reductions:

| Lanczos-3 | %s | this model |
| --- | --- | --- |
| %.2f | %.2f | %.2f |

The start's licence is %s; what of the images may be used so, and under which terms, their owner knows.
)";

std::string ModelJson(const std::string& name, const Network& network, const ModelOrigin& origin) {
  const nlohmann::ordered_json card = {
      {"name", name},
      {"family", origin.start->family},
      {"version", 1},
      {"format", "ncnn"},
      {"files", {{"param", "model.param"}, {"bin", "model.bin"}}},
      {"scale", network.scale},
      {"noise_levels", {origin.noise_level}},
      {"pad_px", network.pad_px},
      {"border", "replicate"},
      {"align_px", network.align_px},
      {"style", origin.start->style},
      {"description", absl::StrFormat("%s, fine-tuned on %s.", origin.start->name, origin.images)},
      {"precisions", {"exact"}}};
  // The names of folders need not be text.
  return card.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::Status WriteModelFolder(const std::filesystem::path& folder, const Network& network,
                              const ModelOrigin& origin) {
  const std::string name = folder.filename().string();
  ASSIGN_OR_RETURN(const NcnnFilePair model, ExportNcnn(network));
  const std::string& licence = origin.start->licence;
  const std::string text =
      absl::StrFormat(kCard, name, origin.start->name, origin.start->version, origin.images,
                      origin.training_images, origin.held_out_images, origin.steps, origin.settings,
                      origin.start->name, origin.lanczos_psnr_db, origin.start_psnr_db,
                      origin.psnr_db, licence.empty() ? "not stated" : licence);
  const std::string json = ModelJson(name, network, origin);
  const ReplaceFileOptions options{.mode = 0644, .sync = true};
  RETURN_IF_ERROR(ReplaceFile(folder / "model.param", {model.param}, options));
  RETURN_IF_ERROR(ReplaceFile(folder / "model.bin", {model.bin}, options));
  RETURN_IF_ERROR(ReplaceFile(folder / "CARD.md", {text}, options));
  return ReplaceFile(folder / kModelCardName, {json}, options);
}

}  // namespace upscaled::train
