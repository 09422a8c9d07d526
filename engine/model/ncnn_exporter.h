// A network as ncnn's pair of files, for their readers.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/model/network.h"

namespace upscaled {

struct NcnnFilePair {
  std::string param;
  std::string bin;
};

// From the blob "data" (RGB in 0..1) to "output". As in all of ncnn's upscaling models the border
// is the caller's: Network::pad_px pixels around the image, and the ones for Network::align_px.
// Weights are written in fp32. UNIMPLEMENTED names a layer missing in ncnn.
absl::StatusOr<NcnnFilePair> ExportNcnn(const Network& network);

}  // namespace upscaled
