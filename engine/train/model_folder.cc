#include "engine/train/model_folder.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/files.h"
#include "engine/base/status_macros.h"
#include "engine/model/model_card.h"
#include "engine/model/precision.h"

namespace upscaled::train {
namespace {

constexpr ReplaceFileOptions kModelFile{.mode = 0644, .sync = true};
constexpr char kTrainedStem[] = "model";

constexpr char kCard[] = R"(# %s

Fine-tuned from %s, version %d, on own images by `upscale-train`.

| | |
| --- | --- |
| images | %s: %d trained on, %d held out |
| steps | %d |
| settings | %s |
| kept from the start | %s |

Held-out images, made small by the recipe; PSNR of RGB in dB, mean over images and reductions:

| Lanczos-3 | %s | this model |
| --- | --- | --- |
| %.2f | %.2f | %.2f |

The start's licence is %s; what of the images may be used so, and under which terms, their owner knows.
)";

// "scale 2 with noise level 1"
std::string NetworkName(int scale, int noise_level) {
  return absl::StrCat(
      "scale ", scale,
      noise_level == kNoDenoise ? "" : absl::StrCat(" with noise level ", noise_level));
}

// A kept network's files without their extensions.
std::string Stem(const KeptNetwork& kept) {
  return absl::StrCat(
      "scale", kept.scale,
      kept.noise_level == kNoDenoise ? "" : absl::StrCat("-noise", kept.noise_level));
}

nlohmann::ordered_json Variant(int scale, int noise_level, const std::string& stem) {
  return {{"scale", scale},
          {"noise_level", noise_level},
          {"files", {{"param", stem + ".param"}, {"bin", stem + ".bin"}}}};
}

std::string ModelJson(const std::string& name, const Network& network, const ModelOrigin& origin) {
  auto variants =
      nlohmann::ordered_json::array({Variant(network.scale, origin.noise_level, kTrainedStem)});
  // If the networks differ, each needs the versions of its layers.
  int pad_px = network.pad_px, align_px = network.align_px;
  for (const KeptNetwork& kept : origin.kept) {
    variants.push_back(Variant(kept.scale, kept.noise_level, Stem(kept)));
    if (kept.pad_px != network.pad_px) pad_px = 0;
    if (kept.align_px != network.align_px) align_px = 1;
  }
  auto precisions = nlohmann::ordered_json::array();
  for (const Precision precision : origin.start->precisions) {
    precisions.push_back(PrecisionName(precision));
  }
  const nlohmann::ordered_json card = {
      {"name", name},
      {"family", origin.start->family},
      {"version", 1},
      {"format", "ncnn"},
      {"variants", variants},
      {"pad_px", pad_px},
      {"border", "replicate"},
      {"align_px", align_px},
      {"style", origin.start->style},
      {"description", absl::StrFormat("%s, fine-tuned on %s.", origin.start->name, origin.images)},
      {"precisions", precisions}};
  // The names of folders need not be text.
  return card.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

absl::Status WriteNetwork(const std::filesystem::path& folder, const std::string& stem,
                          const NcnnFilePair& files) {
  RETURN_IF_ERROR(ReplaceFile(folder / (stem + ".param"), {files.param}, kModelFile));
  return ReplaceFile(folder / (stem + ".bin"), {files.bin}, kModelFile);
}

std::string KeptText(const std::vector<KeptNetwork>& kept) {
  if (kept.empty()) return "nothing";
  return absl::StrJoin(kept, ", ", [](std::string* text, const KeptNetwork& network) {
    absl::StrAppend(text, NetworkName(network.scale, network.noise_level));
  });
}

}  // namespace

absl::StatusOr<std::vector<KeptNetwork>> KeepOtherNetworks(const ModelCard& card,
                                                           const ModelVariant& trained) {
  std::vector<KeptNetwork> kept;
  for (const ModelVariant& variant : card.variants) {
    if (variant.scale == trained.scale && variant.noise_level == trained.noise_level) continue;
    const auto keep = [&]() -> absl::StatusOr<KeptNetwork> {
      ASSIGN_OR_RETURN(const Network network, LoadNetwork(card, variant));
      ASSIGN_OR_RETURN(NcnnFilePair files, ExportNcnn(network));
      return KeptNetwork{variant.scale, variant.noise_level, network.pad_px, network.align_px,
                         std::move(files)};
    };
    absl::StatusOr<KeptNetwork> network = keep();
    if (!network.ok()) {
      return absl::Status(network.status().code(),
                          absl::StrCat("model '", card.name, "' for ",
                                       NetworkName(variant.scale, variant.noise_level),
                                       " cannot be kept: ", network.status().message()));
    }
    kept.push_back(*std::move(network));
  }
  return kept;
}

absl::Status WriteModelFolder(const std::filesystem::path& folder, const Network& network,
                              const ModelOrigin& origin) {
  const std::string name = folder.filename().string();
  ASSIGN_OR_RETURN(const NcnnFilePair trained, ExportNcnn(network));
  const std::string& licence = origin.start->licence;
  const std::string text = absl::StrFormat(
      kCard, name, origin.start->name, origin.start->version, origin.images, origin.training_images,
      origin.held_out_images, origin.steps, origin.settings, KeptText(origin.kept),
      origin.start->name, origin.lanczos_psnr_db, origin.start_psnr_db, origin.psnr_db,
      licence.empty() ? "not stated" : licence);
  const std::string json = ModelJson(name, network, origin);
  RETURN_IF_ERROR(WriteNetwork(folder, kTrainedStem, trained));
  for (const KeptNetwork& kept : origin.kept) {
    RETURN_IF_ERROR(WriteNetwork(folder, Stem(kept), kept.files));
  }
  RETURN_IF_ERROR(ReplaceFile(folder / "CARD.md", {text}, kModelFile));
  return ReplaceFile(folder / kModelCardName, {json}, kModelFile);
}

}  // namespace upscaled::train
