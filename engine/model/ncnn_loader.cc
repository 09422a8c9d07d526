#include "engine/model/ncnn_loader.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/ncnn_builder.h"
#include "engine/model/ncnn_param.h"

namespace upscaled {

absl::StatusOr<Network> ParseNcnn(std::string_view param, std::string_view bin) {
  ASSIGN_OR_RETURN(std::vector<NcnnLayer> layers, ParseNcnnParam(param));
  NcnnBuilder builder(bin);
  for (size_t i = 0; i < layers.size(); ++i) {
    const absl::Status status = builder.Add(layers[i]);
    if (!status.ok()) {
      return absl::Status(status.code(), absl::StrCat("layer ", i, " '", layers[i].name, "' (",
                                                      layers[i].type, "): ", status.message()));
    }
  }
  return builder.Finish();
}

}  // namespace upscaled
